/* weft-plan --op: explains a call: the combinations of strategies that its rule allows, their predicted
 * costs, the chosen one and why, and the inputs' redistributions. */
#include "weft_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sharding/explain.h"
#include "sharding/halos.h"

/* The library's operations with call-independent rules: output of operation-table. */
static const weft_operation named_operations[] = {
#include "operation_table.inc"
    { .name = NULL },
};

typedef struct explanation {
    const plan_op_options *options;
    weft_operation operation;
    weft_operation_halo halos[WEFT_MAX_HALOS];
    char names[PLAN_MAX_INPUTS][24]; /* names of a rule's inputs */
    weft_attributes attributes;
    weft_mesh_impl *mesh;
    weft_topology topology;
    weft_cost_model cost;
    weft_layout_table *table;
    weft_rule_table rules;
    weft_call_layouts call;
    weft_sharding_world world;
    weft_explanation found;
} explanation;

/* ---- the operation -------------------------------------------------------------------------------------- */

static const weft_operation *operation_named(const char *name)
{
    for (const weft_operation *operation = named_operations; operation->name != NULL; operation++) {
        if (strcmp(operation->name, name) == 0) {
            return operation;
        }
    }
    plan_refuse("--op", "\"%s\" is no rule, as \"mk,kn->mn\", and no operation whose rule is static", name);
}

static weft_linearity read_linear(const char *text, int num_inputs)
{
    weft_linearity linear = { .ops = WEFT_LINEAR_OPS, .inputs = (1u << num_inputs) - 1 };
    if (text == NULL || strcmp(text, "none") == 0) {
        return (weft_linearity){ .kind = WEFT_NOT_LINEAR };
    }
    linear.kind = strcmp(text, "jointly") == 0 ? WEFT_LINEAR_JOINTLY : WEFT_LINEAR_EACH;
    if (linear.kind == WEFT_LINEAR_EACH && strcmp(text, "each") != 0) {
        plan_refuse("--linear", "\"%s\": expected none, jointly or each", text);
    }
    return linear;
}

static weft_rule parse_rule(const char *text)
{
    weft_rule rule;
    char why[300] = "";
    if (weft_rule_parse(text, &rule, why, sizeof(why)) != WEFT_OK) {
        plan_refuse("--op", "%s", why);
    }
    return rule;
}

/* An integer, and what follows it. */
static int64_t read_integer(const char *text, const char **rest)
{
    char *end;
    int64_t value = strtoll(text, &end, 10);
    if (end == text) {
        plan_refuse("--halo", "\"%s\": expected a number", text);
    }
    *rest = end;
    return value;
}

/* The first input that reads a letter with "~"; 0 if none does. */
static int input_with(const weft_rule *rule, char letter)
{
    for (int i = 0; i < rule->num_inputs; i++) {
        for (int t = 0; t < rule->inputs[i].num_terms; t++) {
            const weft_rule_term *term = &rule->inputs[i].terms[t];
            if (term->access_map && rule->factors[term->factors[0]].name == letter) {
                return i;
            }
        }
    }
    return 0;
}

/* "x:1,1", of input 1 "1x:1,1"; with a stride of 2 and a dilation of 3 "x:1,1,2,3" */
static weft_halo read_halo(const char *text, const weft_rule *rule)
{
    const char *rest = text;
    bool given = *text >= '0' && *text <= '9';
    int64_t input = given ? read_integer(text, &rest) : 0, numbers[4] = { 0 };
    char letter = *rest;
    if (letter == '\0' || rest[1] != ':' || input > PLAN_MAX_INPUTS) {
        plan_refuse("--halo", "\"%s\": expected LETTER:BEFORE,AFTER, as h:1,1", text);
    }
    rest++;
    for (int i = 0; i < 4 && (i == 0 || *rest != '\0'); i++) {
        if (*rest != (i == 0 ? ':' : ',')) {
            break;
        }
        numbers[i] = read_integer(rest + 1, &rest);
    }
    if (*rest != '\0') {
        plan_refuse("--halo", "\"%s\": expected at most four numbers with commas between them", text);
    }
    return (weft_halo){ .input = given ? (int)input : input_with(rule, letter),
                        .letter = letter,
                        .before = numbers[0],
                        .after = numbers[1],
                        .times = numbers[2],
                        .over = numbers[3] };
}

static void read_halos(explanation *e, const weft_rule *rule)
{
    const plan_op_options *options = e->options;
    weft_operation_description description = { .rule = options->op };
    char why[300];
    for (int h = 0; h < options->num_halos; h++) {
        description.halos[h] = read_halo(options->halos[h], rule);
    }
    if (weft_halos_check(&description, rule, why, sizeof(why)) != WEFT_OK) {
        plan_refuse("--halo", "%s", why);
    }
    weft_halos_copy(&description, e->halos);
    e->operation.halos = e->halos;
    e->operation.num_halos = options->num_halos;
    e->operation.window = weft_window_of_halo;
}

static bool has_access_maps(const weft_rule *rule)
{
    bool has = false;
    for (int i = 0; i < rule->num_inputs; i++) {
        for (int t = 0; t < rule->inputs[i].num_terms; t++) {
            has |= rule->inputs[i].terms[t].access_map;
        }
    }
    return has;
}

/* An operation with inputs of any types. */
static void operation_of_rule(explanation *e)
{
    const plan_op_options *options = e->options;
    weft_rule rule = parse_rule(options->op);
    e->operation = (weft_operation){ .name = options->op, .rules = { options->op } };
    for (int i = 0; i < rule.num_inputs; i++) {
        snprintf(e->names[i], sizeof(e->names[i]), "input %d", i);
        e->operation.inputs[i] = (weft_operation_input){ e->names[i], WEFT_TYPES_ALL, false };
    }
    for (int o = 0; o < rule.num_outputs; o++) {
        e->operation.outputs[o].linear = read_linear(options->linear, rule.num_inputs);
    }
    read_halos(e, &rule);
}

/* The first rule with the given number of inputs, unless --rule selects one. */
static int find_rule(const explanation *e)
{
    const char *const *rules = e->operation.rules;
    int count = 0;
    while (count < WEFT_MAX_RULES && rules[count] != NULL) {
        count++;
    }
    if (e->options->rule != NULL) {
        return (int)plan_read_number("--rule", e->options->rule, 0, count - 1);
    }
    int found = 0;
    while (found < count - 1 && parse_rule(rules[found]).num_inputs != e->options->num_inputs) {
        found++;
    }
    return found;
}

static void read_operation(explanation *e)
{
    const plan_op_options *options = e->options;
    bool by_rule = strstr(options->op, "->") != NULL;
    if (by_rule) {
        operation_of_rule(e);
    } else if (options->linear != NULL) {
        plan_refuse("--linear", "operation %s says that itself", options->op);
    } else if (options->num_halos > 0) {
        plan_refuse("--halo", "operation %s says that itself", options->op);
    } else {
        e->operation = *operation_named(options->op);
    }
    e->attributes.rule = find_rule(e);
    weft_rule rule = parse_rule(e->operation.rules[e->attributes.rule]);
    if (!by_rule && has_access_maps(&rule)) {
        plan_refuse("--op", "rule \"%s\" has access maps (\"~\"), which only a call can tell", options->op);
    }
    if (rule.num_inputs != options->num_inputs) {
        plan_refuse("--input", "%s takes %d, and %d %s given", options->op, rule.num_inputs, options->num_inputs,
                    options->num_inputs == 1 ? "is" : "are");
    }
    bool given = false;
    for (int o = 0; o < rule.num_outputs; o++) {
        if (by_rule && options->type != NULL) {
            e->operation.outputs[o].type = WEFT_TYPE_GIVEN;
        }
        given |= e->operation.outputs[o].type == WEFT_TYPE_GIVEN;
    }
    if (given != (options->type != NULL)) {
        plan_refuse("--type", given ? "missing: the call says the type of the output of %s"
                                    : "the type of the output of %s follows from its inputs",
                    options->op);
    }
}

static void read_attributes(explanation *e)
{
    const plan_op_options *options = e->options;
    if (options->sizes != NULL) {
        plan_sizes sizes = plan_read_sizes("--sizes", options->sizes, 0);
        e->attributes.num_sizes = sizes.count;
        memcpy(e->attributes.sizes, sizes.items, (size_t)sizes.count * sizeof(sizes.items[0]));
    }
    if (options->leading != NULL) {
        e->attributes.leading = plan_read_number("--leading", options->leading, 0, WEFT_MAX_DIMS);
    }
    if (options->type != NULL) {
        e->attributes.type = plan_read_dtype("--type", options->type);
    }
}

/* ---- inputs --------------------------------------------------------------------------------------------- */

/* "64x32:S0,R" or "64x32:S0,R:f64" */
static const weft_layout *read_input(const explanation *e, const char *text)
{
    char copy[400];
    if (strlen(text) >= sizeof(copy)) {
        plan_refuse("--input", "\"%.40s...\" is too long", text);
    }
    strcpy(copy, text);
    char *placements = strchr(copy, ':');
    if (placements == NULL) {
        plan_refuse("--input", "\"%s\": expected SHAPE:PLACEMENTS[:TYPE], as 64x32:S0,R:f32", text);
    }
    *placements++ = '\0';
    char *type = strchr(placements, ':');
    if (type != NULL) {
        *type++ = '\0';
    }
    weft_dtype dtype = type == NULL ? WEFT_F32 : plan_read_dtype("--input", type);
    plan_sizes shape = plan_read_shape("--input", copy, dtype);
    weft_placement read[WEFT_MAX_DIMS];
    plan_read_placements("--input", placements, e->mesh, shape.count, shape.items, read);
    const weft_layout *layout = weft_layout_intern(e->table, e->mesh, read, shape.count, shape.items, dtype);
    if (layout == NULL) {
        plan_out_of_memory();
    }
    return layout;
}

static void understand(explanation *e)
{
    const plan_op_options *options = e->options;
    read_operation(e);
    read_attributes(e);
    e->mesh = plan_read_mesh("--mesh", options->mesh);
    e->topology = plan_make_topology(
        e->mesh->num_ranks, plan_read_number("--local-ranks", options->local_ranks, 1, PLAN_MAX_RANKS));
    e->cost = (weft_cost_model)WEFT_COST_MODEL_DEFAULT;
    e->cost.algorithm = plan_read_algorithm(options->algorithm);
    e->table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    if (e->table == NULL) {
        plan_out_of_memory();
    }
    e->call = (weft_call_layouts){ .operation = &e->operation,
                                   .num_inputs = options->num_inputs,
                                   .attributes = &e->attributes };
    for (int i = 0; i < options->num_inputs; i++) {
        e->call.inputs[i] = read_input(e, options->inputs[i]);
    }
}

/* ---- the search ----------------------------------------------------------------------------------------- */

static void refuse_call(weft_status status, const char *why)
{
    if (status == WEFT_ERR_NOMEM) {
        plan_out_of_memory();
    }
    if (status != WEFT_OK) {
        plan_refuse(status == WEFT_ERR_INVALID ? "--op" : "--input", "%s", why);
    }
}

typedef struct redistribution {
    weft_plan plan;
    weft_plan_statistics statistics;
    weft_explained_reads reads;
} redistribution;

/* The redistribution of an input to the chosen layout, and what ranks then read of each other. */
static redistribution plan_input(const explanation *e, int input)
{
    redistribution r;
    if (weft_explanation_move(&e->found, input, &r.plan, &r.statistics) != WEFT_OK ||
        weft_explanation_reads(&e->found, input, &r.reads) != WEFT_OK) {
        plan_out_of_memory();
    }
    return r;
}

/* ---- the page ------------------------------------------------------------------------------------------- */

static void print_page(const explanation *e)
{
    char text[400];
    const char *rule = e->operation.rules[e->attributes.rule];
    printf("operation  %s", e->operation.name);
    printf(strcmp(rule, e->operation.name) == 0 ? "\n" : "  %s\n", rule);
    printf("mesh       %s, %lld ranks\n\n", weft_mesh_format(e->mesh, text, sizeof(text)),
           (long long)e->mesh->num_ranks);
    if (weft_explanation_print(&e->found, "", stdout) != WEFT_OK) {
        plan_out_of_memory();
    }
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static void print_json_placements(const char *name, const weft_placement *placements, int n)
{
    weft_text text = weft_text_growing();
    weft_text_add(&text, "%s\"", name);
    weft_placements_write(&text, placements, n);
    if (text.failed) {
        plan_out_of_memory();
    }
    printf("%s\"", text.characters);
    weft_text_free(&text);
}

static void print_json_layout(const char *name, const weft_layout *layout)
{
    char buffer[WEFT_MAX_DIMS * 24];
    weft_text text = weft_text_in(buffer, sizeof(buffer));
    weft_text_add_sizes(&text, layout->ndim, layout->shape, ", ");
    printf("\"%s\": {\"shape\": [%s], \"dtype\": \"%s\", ", name, buffer, weft_dtype_name(layout->dtype));
    print_json_placements("\"placements\": ", layout->placements, layout->mesh->ndim);
    printf("}");
}

static void print_json_combination(const explanation *e, const weft_considered *c, bool chosen)
{
    char shards[64];
    printf("    {\"chosen\": %s, \"predicted_us\": %.6f, \"inputs_moved\": %d, \"work\": %.17g, \"shards\": "
           "\"%s\", "
           "\"inputs\": [",
           chosen ? "true" : "false", c->us, c->changed, c->work,
           weft_explanation_factors(&e->found, c, shards, sizeof(shards)));
    for (int i = 0; i < e->call.num_inputs; i++) {
        print_json_placements(i == 0 ? "" : ", ", c->inputs[i]->placements, e->mesh->ndim);
    }
    printf("], \"outputs\": [");
    for (int o = 0; o < e->found.sharding.num_outputs; o++) {
        print_json_placements(o == 0 ? "" : ", ", c->outputs[o], e->mesh->ndim);
    }
    printf("]}");
}

static void print_json_input(const explanation *e, int input)
{
    redistribution r = plan_input(e, input);
    printf("    {\"name\": \"%s\", ", e->operation.inputs[input].name);
    print_json_layout("given", e->call.inputs[input]);
    printf(", ");
    print_json_layout("chosen", e->found.sharding.inputs[input]);
    if (r.reads.any) {
        printf(", \"reads\": {\"kind\": \"%s\", \"bytes_total\": %lld, \"bytes_in_max\": %lld, "
               "\"predicted_us\": %.3f}",
               weft_stage_kind_name(r.reads.kind), (long long)r.reads.bytes_total,
               (long long)r.reads.bytes_in_max, r.reads.predicted_us);
    }
    printf(", \"algorithm\": \"%s\", \"stages\": %d, \"bytes_total\": %lld, \"bytes_in_max\": %lld, "
           "\"messages_max\": %lld, \"predicted_us\": %.3f}",
           r.plan.num_stages == 0 ? "identity" : r.plan.algorithm, r.plan.num_stages,
           (long long)r.statistics.bytes_total, (long long)r.statistics.bytes_in_max,
           (long long)r.statistics.messages_max, r.plan.predicted_us);
}

static void print_json(const explanation *e)
{
    const weft_considered **ranked = e->found.ranked;
    char why[200];
    size_t count = e->found.record.considered.count;
    printf("{\n  \"operation\": \"%s\",\n  \"rule\": \"%s\",\n  \"ranks\": %lld,\n", e->operation.name,
           e->operation.rules[e->attributes.rule], (long long)e->mesh->num_ranks);
    printf("  \"possible\": %zu,\n  \"impossible\": %lld,\n  \"inputs_fit\": %s,\n", count,
           (long long)e->found.record.num_impossible, e->found.fits ? "true" : "false");
    printf("  \"predicted_us\": %.6f,\n  \"why\": \"%s\",\n  \"strategies\": [\n", ranked[0]->us,
           weft_explanation_reason(&e->found, why, sizeof(why)));
    for (size_t i = 0; i < count; i++) {
        print_json_combination(e, ranked[i], i == 0);
        printf(i + 1 < count ? ",\n" : "\n");
    }
    printf("  ],\n  \"inputs\": [\n");
    for (int i = 0; i < e->call.num_inputs; i++) {
        print_json_input(e, i);
        printf(i + 1 < e->call.num_inputs ? ",\n" : "\n");
    }
    printf("  ],\n  \"outputs\": [\n");
    for (int o = 0; o < e->found.sharding.num_outputs; o++) {
        printf("    {");
        print_json_layout("chosen", e->found.sharding.outputs[o]);
        printf(o + 1 < e->found.sharding.num_outputs ? "},\n" : "}\n");
    }
    printf("  ]\n}\n");
}

int plan_explain(const plan_op_options *options)
{
    explanation e = { .options = options };
    understand(&e);
    char why[400] = "";
    refuse_call(weft_call_check_inputs(&e.call, why, sizeof(why)), why);
    e.world = (weft_sharding_world){
        .table = e.table, .topology = &e.topology, .cost = &e.cost, .rules = &e.rules
    };
    refuse_call(weft_explanation_make(&e.world, &e.call, &e.found, why, sizeof(why)), why);
    if (options->json) {
        print_json(&e);
    } else {
        print_page(&e);
    }
    weft_explanation_free(&e.found);
    weft_rule_table_free(&e.rules);
    weft_layout_table_delete(e.table);
    weft_mesh_delete(e.mesh);
    free((int *)e.topology.first_rank);
    return fflush(stdout) == 0 ? 0 : 1;
}
