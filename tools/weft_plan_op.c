/* weft-plan --op: explains a call: the combinations of strategies that its rule allows, their predicted
 * costs, the chosen one and why, and the inputs' redistributions. */
#include "weft_plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The library's operations with call-independent rules: output of weft_operation_table. */
static const weft_operation named_operations[] = {
#include "operation_table.inc"
    { .name = NULL },
};

/* Number of combinations before the rest is only counted. */
enum { SHOWN_COMBINATIONS = 12 };

typedef struct explanation {
    const plan_op_options *options;
    weft_operation operation;
    char names[PLAN_MAX_INPUTS][24]; /* names of a rule's inputs */
    weft_attributes attributes;
    weft_mesh_impl *mesh;
    weft_topology topology;
    weft_cost_model cost;
    weft_layout_table *table;
    weft_rule_table rules;
    weft_call_layouts call;
    weft_sharding sharding;
    weft_search_record record;
    bool fits; /* no redistribution needed: combinations with one were not compared */
} explanation;

/* The redistribution of an input to the chosen layout. */
typedef struct redistribution {
    weft_plan plan;
    weft_plan_statistics statistics;
} redistribution;

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
    for (int i = 0; i < rule.num_inputs; i++) {
        for (int t = 0; t < rule.inputs[i].num_terms; t++) {
            if (rule.inputs[i].terms[t].access_map) {
                plan_refuse("--op", "rule \"%s\" has access maps (\"~\"), which only a call can tell", text);
            }
        }
    }
    return rule;
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
    } else {
        e->operation = *operation_named(options->op);
    }
    e->attributes.rule = find_rule(e);
    weft_rule rule = parse_rule(e->operation.rules[e->attributes.rule]);
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
    plan_read_placements("--input", placements, e->mesh, shape.count, read);
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

static weft_sharding search(explanation *e, weft_search_record *record)
{
    weft_sharding_world world = { .table = e->table,
                                  .topology = &e->topology,
                                  .cost = &e->cost,
                                  .rules = &e->rules,
                                  .record = record };
    weft_sharding sharding;
    char why[400] = "";
    refuse_call(weft_call_shard(&world, &e->call, &sharding, why, sizeof(why)), why);
    if (record->failed) {
        plan_out_of_memory();
    }
    return sharding;
}

/* Order of preference: cost, number of redistributed inputs, work, order of search. */
static int by_preference(const void *a, const void *b)
{
    const weft_considered *p = *(const weft_considered *const *)a, *q = *(const weft_considered *const *)b;
    double differences[] = { p->us - q->us, p->changed - q->changed, p->work - q->work };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(differences); i++) {
        if (differences[i] != 0) {
            return differences[i] < 0 ? -1 : 1;
        }
    }
    return p < q ? -1 : p > q;
}

static bool is_chosen(const explanation *e, const weft_considered *c)
{
    bool chosen = true;
    for (int i = 0; i < e->call.num_inputs; i++) {
        chosen &= c->inputs[i] == e->sharding.inputs[i];
    }
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        for (int m = 0; m < e->mesh->ndim; m++) {
            chosen &= weft_placement_equal(c->outputs[o][m], e->sharding.outputs[o]->placements[m]);
        }
    }
    return chosen;
}

/* All combinations, the chosen one first. */
static const weft_considered **rank_combinations(const explanation *e)
{
    size_t count = e->record.considered.count;
    const weft_considered **ranked = malloc(count * sizeof(*ranked));
    if (ranked == NULL) {
        plan_out_of_memory();
    }
    for (size_t i = 0; i < count; i++) {
        ranked[i] = (const weft_considered *)e->record.considered.items + i;
    }
    qsort(ranked, count, sizeof(*ranked), by_preference);
    size_t chosen = 0;
    while (chosen < count - 1 && !is_chosen(e, ranked[chosen])) {
        chosen++;
    }
    const weft_considered *first = ranked[chosen];
    memmove(ranked + 1, ranked, chosen * sizeof(*ranked));
    ranked[0] = first;
    return ranked;
}

static const char *reason(const explanation *e, const weft_considered *const *ranked, char *text, size_t size)
{
    if (e->record.considered.count == 1) {
        snprintf(text, size, "no other combination is possible");
        return text;
    }
    const weft_considered *best = ranked[0], *next = ranked[1];
    if (next->us != best->us) {
        snprintf(text, size, "least predicted cost: %.1f us, the next one %.1f us", best->us, next->us);
    } else if (next->changed != best->changed) {
        snprintf(text, size, "as cheap as the next one, and redistributes fewer inputs: %d, not %d", best->changed,
                 next->changed);
    } else if (next->work != best->work) {
        snprintf(text, size, "as cheap as the next one, and gives the busiest rank less work: %g, not %g", best->work,
                 next->work);
    } else {
        snprintf(text, size, "as good as the next one, and earlier in the order of preference");
    }
    return text;
}

static redistribution plan_input(const explanation *e, int input)
{
    redistribution r;
    char why[400] = "";
    refuse_call(weft_plan_make(e->table, &e->topology, &e->cost, e->call.inputs[input], e->sharding.inputs[input],
                               &r.plan, why, sizeof(why)),
                why);
    if (weft_plan_measure(&r.plan, &e->topology, &r.statistics) != WEFT_OK) {
        plan_out_of_memory();
    }
    return r;
}

/* ---- the page ------------------------------------------------------------------------------------------- */

static const char *factors_text(const explanation *e, const weft_considered *c, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    for (int m = 0; m < e->mesh->ndim; m++) {
        char name[] = { c->factors[m] == '\0' ? '-' : c->factors[m], '\0' };
        weft_text_add(&text, "%s%s", m == 0 ? "" : ",", c->factors[m] == '.' ? "..." : name);
    }
    return buffer;
}

static void print_combination(const explanation *e, const weft_considered *c, bool chosen)
{
    char text[200];
    printf("%s %12.1f  %5d  %10g  %-8s", chosen ? "*" : " ", c->us, c->changed, c->work,
           factors_text(e, c, text, sizeof(text)));
    for (int i = 0; i < e->call.num_inputs; i++) {
        printf(" %-12s", weft_placements_text(c->inputs[i]->placements, e->mesh->ndim, text, sizeof(text)));
    }
    printf(" ->");
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        printf(" %-12s", weft_placements_text(c->outputs[o], e->mesh->ndim, text, sizeof(text)));
    }
    printf("\n");
}

static void print_combinations(const explanation *e, const weft_considered *const *ranked)
{
    size_t count = e->record.considered.count;
    printf("\n%zu combination%s of strategies possible, %lld not%s\n", count, count == 1 ? "" : "s",
           (long long)e->record.num_impossible,
           e->fits ? "; the inputs fit as they are: no call compares those that move one" : "");
    printf("  predicted us  moved        work  shards   inputs -> outputs\n");
    for (size_t i = 0; i < count && i < SHOWN_COMBINATIONS; i++) {
        print_combination(e, ranked[i], i == 0);
    }
    if (count > SHOWN_COMBINATIONS) {
        printf("    ... and %zu more\n", count - SHOWN_COMBINATIONS);
    }
    char why[200];
    printf("chosen (*): %s\n\n", reason(e, ranked, why, sizeof(why)));
}

static void print_input(const explanation *e, int input)
{
    char text[400];
    printf("%s  %s\n", e->operation.inputs[input].name,
           weft_layout_format(e->call.inputs[input], text, sizeof(text)));
    if (e->call.inputs[input] == e->sharding.inputs[input]) {
        printf("    as it is\n");
        return;
    }
    redistribution r = plan_input(e, input);
    printf("    to %s: %s, %d stage%s\n", weft_layout_format(e->sharding.inputs[input], text, sizeof(text)),
           r.plan.algorithm, r.plan.num_stages, r.plan.num_stages == 1 ? "" : "s");
    printf("    %lld bytes in all, at most %lld into a rank; at most %lld messages of a rank; %.1f us predicted\n",
           (long long)r.statistics.bytes_total, (long long)r.statistics.bytes_in_max,
           (long long)r.statistics.messages_max, r.plan.predicted_us);
}

static void print_page(const explanation *e, const weft_considered *const *ranked)
{
    char text[400];
    const char *rule = e->operation.rules[e->attributes.rule];
    printf("operation  %s", e->operation.name);
    printf(strcmp(rule, e->operation.name) == 0 ? "\n" : "  %s\n", rule);
    printf("mesh       %s, %lld ranks\n", weft_mesh_format(e->mesh, text, sizeof(text)),
           (long long)e->mesh->num_ranks);
    print_combinations(e, ranked);
    for (int i = 0; i < e->call.num_inputs; i++) {
        print_input(e, i);
    }
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        char name[16];
        snprintf(name, sizeof(name), e->sharding.num_outputs == 1 ? "output" : "output %d", o);
        printf("%s  %s\n", name, weft_layout_format(e->sharding.outputs[o], text, sizeof(text)));
    }
}

/* ---- JSON ----------------------------------------------------------------------------------------------- */

static void print_json_placements(const char *name, const weft_placement *placements, int n)
{
    char buffer[WEFT_MAX_DIMS * 12];
    weft_text text = weft_text_in(buffer, sizeof(buffer));
    weft_placements_write(&text, placements, n);
    printf("%s\"%s\"", name, buffer);
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
    printf("    {\"chosen\": %s, \"predicted_us\": %.6f, \"inputs_moved\": %d, \"work\": %.17g, \"shards\": \"%s\", "
           "\"inputs\": [",
           chosen ? "true" : "false", c->us, c->changed, c->work, factors_text(e, c, shards, sizeof(shards)));
    for (int i = 0; i < e->call.num_inputs; i++) {
        print_json_placements(i == 0 ? "" : ", ", c->inputs[i]->placements, e->mesh->ndim);
    }
    printf("], \"outputs\": [");
    for (int o = 0; o < e->sharding.num_outputs; o++) {
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
    print_json_layout("chosen", e->sharding.inputs[input]);
    printf(", \"algorithm\": \"%s\", \"stages\": %d, \"bytes_total\": %lld, \"bytes_in_max\": %lld, "
           "\"messages_max\": %lld, \"predicted_us\": %.3f}",
           r.plan.algorithm, r.plan.num_stages, (long long)r.statistics.bytes_total,
           (long long)r.statistics.bytes_in_max, (long long)r.statistics.messages_max, r.plan.predicted_us);
}

static void print_json(const explanation *e, const weft_considered *const *ranked)
{
    char why[200];
    size_t count = e->record.considered.count;
    printf("{\n  \"operation\": \"%s\",\n  \"rule\": \"%s\",\n  \"ranks\": %lld,\n", e->operation.name,
           e->operation.rules[e->attributes.rule], (long long)e->mesh->num_ranks);
    printf("  \"possible\": %zu,\n  \"impossible\": %lld,\n  \"inputs_fit\": %s,\n", count,
           (long long)e->record.num_impossible, e->fits ? "true" : "false");
    printf("  \"predicted_us\": %.6f,\n  \"why\": \"%s\",\n  \"strategies\": [\n", ranked[0]->us,
           reason(e, ranked, why, sizeof(why)));
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
    for (int o = 0; o < e->sharding.num_outputs; o++) {
        printf("    {");
        print_json_layout("chosen", e->sharding.outputs[o]);
        printf(o + 1 < e->sharding.num_outputs ? "},\n" : "}\n");
    }
    printf("  ]\n}\n");
}

int plan_explain(const plan_op_options *options)
{
    explanation e = { .options = options };
    understand(&e);
    char why[400] = "";
    refuse_call(weft_call_check_inputs(&e.call, why, sizeof(why)), why);
    weft_search_record compared = { .complete = false };
    e.sharding = search(&e, &compared);
    e.record.complete = true;
    search(&e, &e.record);
    e.fits = compared.considered.count + (size_t)compared.num_impossible <
             e.record.considered.count + (size_t)e.record.num_impossible;
    const weft_considered **ranked = rank_combinations(&e);
    if (options->json) {
        print_json(&e, ranked);
    } else {
        print_page(&e, ranked);
    }
    free(ranked);
    weft_vec_free(&compared.considered);
    weft_vec_free(&e.record.considered);
    weft_rule_table_free(&e.rules);
    weft_layout_table_delete(e.table);
    weft_mesh_delete(e.mesh);
    free((int *)e.topology.first_rank);
    return fflush(stdout) == 0 ? 0 : 1;
}
