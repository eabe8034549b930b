/* weft-operations: prints the table of docs/operations.md from the registry of operations. Uses the
 * library's internals. */
#include <stdio.h>

#include "ops/ops.h"

static void print_rules(const weft_operation *operation)
{
    if (operation->rule_like != NULL) {
        printf("like `%s`", operation->rule_like);
        return;
    }
    if (operation->choose != NULL) {
        printf("inputs as they lie");
    }
    if (operation->expand != NULL && operation->expands == NULL) {
        printf("those of its calls");
    }
    for (int i = 0; i < WEFT_MAX_RULES && operation->rules[i] != NULL; i++) {
        printf("%s`%s`", i == 0 ? "" : ", ", operation->rules[i]);
    }
}

static void print_types(unsigned types)
{
    static const struct {
        unsigned types;
        const char *name;
    } sets[] = { { WEFT_TYPES_ANY | WEFT_TYPES_STORED, "all, complex, f8" },
                 { WEFT_TYPES_ANY, "all, complex" },
                 { WEFT_TYPES_NUMBER | WEFT_TYPES_COMPLEX, "numbers, complex" },
                 { WEFT_TYPES_FLOAT | WEFT_TYPES_COMPLEX, "floating, complex" },
                 { WEFT_TYPES_COMPLEX, "complex" },
                 { WEFT_TYPES_ALL, "all" },        { WEFT_TYPES_NUMBER, "numbers" },
                 { WEFT_TYPES_FLOAT, "floating" }, { WEFT_TYPES_INTEGER, "integers" },
                 { WEFT_TYPES_INDEX, "i64, i32" }, { WEFT_TYPES_BOOL, "bool" } };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(sets); i++) {
        if (sets[i].types == types) {
            printf("%s", sets[i].name);
            return;
        }
    }
    const char *between = "";
    for (int t = 0; t < WEFT_DTYPE_COUNT; t++) {
        if (types & WEFT_TYPE_BIT(t)) {
            printf("%s%s", between, weft_dtype_name((weft_dtype)t));
            between = ", ";
        }
    }
}

static const char *output_text(weft_output_type type)
{
    switch (type) {
    case WEFT_TYPE_PROMOTED:
        return "promoted";
    case WEFT_TYPE_FLOATING:
        return "promoted, floating";
    case WEFT_TYPE_SUMMED:
        return "of input 0; integers: i64";
    case WEFT_TYPE_BOOL:
        return "bool";
    case WEFT_TYPE_INDEX:
        return "i64";
    case WEFT_TYPE_LAST:
        return "of the last input";
    case WEFT_TYPE_GIVEN:
        return "by the call";
    case WEFT_TYPE_REAL:
        return "of input 0; complex: of its parts";
    case WEFT_TYPE_COMPLEX:
        return "promoted, complex";
    case WEFT_TYPE_FIRST:
        break;
    }
    return "of input 0";
}

/* By the rule; operations that choose their own layouts have one. */
static int outputs_of(const weft_operation *operation)
{
    weft_rule rule;
    const char *text = operation->rule_like != NULL ? operation->rule_like : operation->rules[0];
    return text != NULL && weft_rule_parse(text, &rule, NULL, 0) == WEFT_OK ? rule.num_outputs : 1;
}

/* "": one new output; else the inputs changed in place. */
static void print_targets(const weft_operation *operation, int num_outputs)
{
    const char *before = num_outputs == 1 ? "" : ": ";
    for (int o = 0; o < num_outputs; o++) {
        if (operation->outputs[o].in_place) {
            bool first = o == 0 || !operation->outputs[o - 1].in_place;
            printf("%s%s%s", first ? ", in place" : "", before,
                   num_outputs == 1 ? "" : operation->inputs[o].name);
            before = ", ";
        }
    }
}

static void print_outputs(const weft_operation *operation, int num_outputs)
{
    for (int o = 0; o < num_outputs; o++) {
        bool in_place = operation->outputs[o].in_place && o > 0;
        printf("%s%s%s", o == 0 ? "" : "; ", in_place ? "of " : "",
               in_place ? operation->inputs[o].name : output_text(operation->outputs[o].type));
    }
}

/* Which values the gradients of the inputs are computed from: "a, b", "output 0", "-" for none. */
static void print_gradient(const weft_operation *operation)
{
    const weft_gradient_entry *entry = &operation->gradient;
    if (entry->function == NULL) {
        printf("%s%s", entry->zero != NULL ? "none: " : "", entry->zero != NULL ? entry->zero : entry->missing);
        return;
    }
    unsigned reads = 0;
    for (int i = 0; i < WEFT_MAX_INPUTS; i++) {
        reads |= entry->reads[i];
    }
    const char *between = "";
    for (int i = 0; i < WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS; i++) {
        if (reads >> i & 1) {
            bool output = i >= WEFT_MAX_INPUTS;
            printf("%s%s", between, output ? "output" : operation->inputs[i].name);
            if (output && operation->num_outputs > 1) {
                printf(" %d", i - WEFT_MAX_INPUTS);
            }
            between = ", ";
        }
    }
    printf("%s", reads != 0 ? "" : entry->reads_inputs ? "all inputs" : "-");
}

/* The Partial placements that pass through. */
static void print_linear(const weft_operation *operation)
{
    const weft_linearity *linear = &operation->outputs[0].linear;
    if (linear->kind == WEFT_NOT_LINEAR) {
        return;
    }
    const char *between = "";
    for (int op = WEFT_SUM; op <= WEFT_MAX; op++) {
        if (linear->ops & (1u << op)) {
            printf("%s%s", between, weft_reduce_op_name((weft_reduce_op)op));
            between = ", ";
        }
    }
    for (int i = 0; linear->kind == WEFT_LINEAR_EACH && i < WEFT_MAX_INPUTS; i++) {
        if (linear->inputs & (1u << i)) {
            printf("; in %s", operation->inputs[i].name);
        }
    }
    for (int i = 0; i < WEFT_MAX_INPUTS; i++) {
        if (operation->joins & (1u << i)) {
            printf("; %s beside an addend", operation->inputs[i].name);
        }
    }
    printf("%s", operation->only_widens ? "; to a wider type" : "");
}

static const char *tasks_text(const weft_operation *operation)
{
    return operation->lower != NULL                        ? "a lowering of its own"
           : weft_kernel_is_elementwise(operation->kernel) ? "elementwise"
           : operation->accumulates                        ? "kernel, piece by piece"
           : operation->kernel != WEFT_KERNEL_NONE         ? "kernel"
                                                           : "";
}

static const char *calls_text(const weft_operation *operation)
{
    return operation->expand == NULL    ? ""
           : operation->expands == NULL ? "other calls"
                                        : "; some calls: other calls";
}

/* Lowerings of their own that name no kernel copy, add up and fill. */
static const char *gpu_text(const weft_operation *operation)
{
    bool has_tasks = operation->lower != NULL || operation->kernel != WEFT_KERNEL_NONE;
    bool runs = operation->kernel == WEFT_KERNEL_NONE ? weft_kernel_infos[WEFT_KERNEL_copy].on_devices
                                                      : weft_kernel_infos[operation->kernel].on_devices;
    return !has_tasks ? "" : runs ? "yes" : "no";
}

static void print_operation(const weft_operation *operation)
{
    int num_outputs = outputs_of(operation);
    weft_reduce_op contracts = operation->outputs[0].linear.contracts;
    printf("| `%s`", operation->name);
    print_targets(operation, num_outputs);
    printf(" | ");
    print_rules(operation);
    printf(" | ");
    print_types(operation->inputs[0].types);
    printf(" | ");
    print_outputs(operation, num_outputs);
    printf(" | ");
    print_linear(operation);
    printf(" | %s | ", contracts == WEFT_SUM ? "" : weft_reduce_op_name(contracts));
    print_gradient(operation);
    printf(" | %s%s | %s |\n", tasks_text(operation), calls_text(operation), gpu_text(operation));
}

int main(void)
{
    printf("| operation | rule | types of input 0 | output | Partial that passes | contracted by | gradient from "
           "| tasks | GPU |\n"
           "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n");
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *operation = *family; *operation != NULL; operation++) {
            print_operation(*operation);
        }
    }
    return 0;
}
