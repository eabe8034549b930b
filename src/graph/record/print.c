/* Traces as text: listings, and pictures for Graphviz. */
#include "graph/record/trace.h"

/* ---- layouts --------------------------------------------------------------------------------------------- */

/* "mesh (dp 2, tp 4) [S0,R]" */
static void add_mesh(weft_text *text, const weft_layout *layout)
{
    const weft_mesh_impl *mesh = layout->mesh;
    weft_text_add(text, "mesh (");
    for (int d = 0; d < mesh->ndim; d++) {
        weft_text_add(text, "%s%s%s%lld", d == 0 ? "" : ", ", mesh->names[d] == NULL ? "" : mesh->names[d],
                      mesh->names[d] == NULL ? "" : " ", (long long)mesh->shape[d]);
    }
    weft_text_add(text, ")%s [", mesh->ranks == NULL ? "" : " of chosen ranks");
    weft_placements_show(text, layout->placements, mesh->ndim);
    weft_text_add(text, "]");
}

/* "f32[8, 4]" */
static void add_type(weft_text *text, const weft_layout *layout)
{
    weft_text_add(text, "%s[", weft_dtype_name(layout->dtype));
    weft_text_add_sizes(text, layout->ndim, layout->shape, ", ");
    weft_text_add(text, "]");
}

/* ---- listings -------------------------------------------------------------------------------------------- */

static void print_numbers(const int numbers[], int count, FILE *file)
{
    for (int i = 0; i < count; i++) {
        fprintf(file, i > 0 ? ", " : "");
        fprintf(file, numbers[i] < 0 ? "-" : "%%%d", numbers[i]);
    }
}

/* One of the graph's inputs, the result of an opaque function, or a tensor that the function has got elsewhere. */
static void print_input(size_t number, const weft_graph_value *value, FILE *file)
{
    char space[400], from[40] = "input";
    if (value->argument >= 0 || value->constant >= 0) {
        bool constant = value->argument < 0;
        snprintf(from, sizeof(from), "%s[%d]", constant ? "constant" : "inputs", constant ? value->constant : value->argument);
    }
    fprintf(file, "  %%%zu = %s : %s%s\n", number, from, weft_layout_format(value->layout, space, sizeof(space)),
            value->is_fake ? ", without data" : "");
}

static void print_inputs(const weft_graph_trace *trace, FILE *file)
{
    char space[400];
    int num_memories = 0;
    for (size_t i = 0; i < trace->values.count; i++) {
        const weft_graph_value *value = weft_trace_value(trace, (int)i);
        if (value->is_memory) {
            weft_text text = weft_text_in(space, sizeof(space));
            add_mesh(&text, value->layout);
            weft_text_add(&text, " : ");
            add_type(&text, value->layout);
            fprintf(file, "  %%%zu = weft_from_local(memory %d) %s\n", i, num_memories++, space);
        } else if (value->is_input) {
            print_input(i, value, file);
        }
    }
}

/* The first output's layout. The mesh and the placements of a redistribution are its arguments. */
static void print_output(const weft_graph_node *node, const weft_layout *layout, FILE *file)
{
    char space[400];
    weft_text text = weft_text_in(space, sizeof(space));
    if (weft_call_does(node->call, WEFT_MOVES)) {
        add_mesh(&text, layout);
        weft_text_add(&text, " : ");
        add_type(&text, layout);
        fprintf(file, " %s", space);
    } else {
        fprintf(file, " : %s", weft_layout_format(layout, space, sizeof(space)));
    }
}

/* The output says its type. */
static void print_words(const weft_call *call, FILE *file)
{
    char space[400];
    weft_text text = weft_text_in(space, sizeof(space));
    weft_attributes attributes = call->attributes;
    attributes.type = 0;
    weft_call_attributes(&text, &attributes);
    if (call->details != NULL) {
        weft_call_words(&text, "more", call->details->num_numbers, call->details->numbers);
        if (call->details->text != NULL) {
            weft_text_add(&text, " \"%s\"", call->details->text);
        }
    }
    fputs(space, file);
}

/* Prints where the call's numbers come from, if that is known, and its line in the program. */
static void print_end_of_line(const weft_graph_trace *trace, size_t i, weft_add_numbers *numbers, FILE *file)
{
    const weft_graph_node *node = weft_trace_node(trace, i);
    char space[1000] = "";
    weft_text text = weft_text_in(space, sizeof(space));
    if (numbers != NULL) {
        numbers(&text, trace, i);
    }
    fputs(space, file);
    if (node->here != NULL) {
        fprintf(file, "  # %s:%d", node->here, node->here_line);
    }
    fprintf(file, "\n");
}

void weft_trace_print(const weft_graph_trace *trace, weft_add_numbers *numbers, FILE *file)
{
    print_inputs(trace, file);
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        fprintf(file, "  ");
        print_numbers(node->outputs, node->num_outputs, file);
        fprintf(file, "%s%s(", node->num_outputs > 0 ? " = " : "", node->call->function);
        print_numbers(node->inputs, node->num_inputs, file);
        fprintf(file, ")");
        print_words(node->call, file);
        if (node->num_outputs > 0 && node->outputs[0] >= 0) {
            print_output(node, weft_trace_value(trace, node->outputs[0])->layout, file);
        }
        print_end_of_line(trace, i, numbers, file);
    }
}

/* ---- pictures -------------------------------------------------------------------------------------------- */

/* A value as the label of an edge: its type, and its placements below. */
static void print_label(const weft_graph_trace *trace, int number, FILE *file)
{
    char space[400];
    const weft_layout *layout = weft_trace_value(trace, number)->layout;
    weft_text text = weft_text_in(space, sizeof(space));
    weft_text_add(&text, "%%%d ", number);
    add_type(&text, layout);
    weft_text_add(&text, "\\n[");
    weft_placements_show(&text, layout->placements, layout->mesh->ndim);
    weft_text_add(&text, "]");
    fprintf(file, "label=\"%s\"", space);
}

static bool is_made_by(const weft_graph_node *node, int number)
{
    bool made = false;
    for (int i = 0; i < node->num_outputs; i++) {
        made |= node->outputs[i] == number;
    }
    for (int i = 0; i < node->num_inputs; i++) {
        made &= node->inputs[i] != number;
    }
    return made;
}

/* The call that makes a value; -1: an input. */
static int maker_of(const weft_graph_trace *trace, int number)
{
    for (size_t i = 0; i < trace->nodes.count; i++) {
        if (is_made_by(weft_trace_node(trace, i), number)) {
            return (int)i;
        }
    }
    return -1;
}

/* "s0_c3": a call of segment 0; "s0_v1": an input. */
static void print_end(size_t segment, int maker, int number, FILE *file)
{
    fprintf(file, maker >= 0 ? "s%zu_c%d" : "s%zu_v%d", segment, maker >= 0 ? maker : number);
}

static void print_edges(const weft_graph_trace *trace, size_t segment, FILE *file)
{
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_graph_node *node = weft_trace_node(trace, i);
        for (int k = 0; k < node->num_inputs; k++) {
            if (node->inputs[k] >= 0) {
                fprintf(file, "    ");
                print_end(segment, maker_of(trace, node->inputs[k]), node->inputs[k], file);
                fprintf(file, " -> s%zu_c%zu [", segment, i);
                print_label(trace, node->inputs[k], file);
                fprintf(file, "];\n");
            }
        }
    }
}

/* Values that no call reads: what is promised to the program is among them. */
static void print_ends(const weft_graph_trace *trace, size_t segment, FILE *file)
{
    for (int i = 0; i < (int)trace->values.count; i++) {
        int maker = maker_of(trace, i);
        if (weft_trace_value(trace, i)->last_use < 0 && maker >= 0) {
            fprintf(file, "    s%zu_e%d [shape=point];\n    s%zu_c%d -> s%zu_e%d [", segment, i, segment, maker, segment, i);
            print_label(trace, i, file);
            fprintf(file, "];\n");
        }
    }
}

void weft_trace_print_dot(const weft_graph_trace *trace, size_t number, FILE *file)
{
    fprintf(file, "  subgraph cluster_%zu {\n    label=\"segment %zu\";\n", number, number);
    for (size_t i = 0; i < trace->values.count; i++) {
        const weft_graph_value *value = weft_trace_value(trace, (int)i);
        if (value->is_input) {
            fprintf(file, "    s%zu_v%zu [shape=ellipse, label=\"%s\"];\n", number, i,
                    value->is_memory ? "weft_from_local" : "input");
        }
    }
    for (size_t i = 0; i < trace->nodes.count; i++) {
        const weft_call *call = weft_trace_node(trace, i)->call;
        bool moves = weft_call_does(call, WEFT_MOVES);
        fprintf(file, "    s%zu_c%zu [shape=box, label=\"%s\"%s];\n", number, i, call->function,
                moves ? ", style=filled, fillcolor=\"#ffcc80\"" : "");
    }
    print_edges(trace, number, file);
    print_ends(trace, number, file);
    fprintf(file, "  }\n");
}
