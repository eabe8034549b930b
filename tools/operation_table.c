/* Prints the library's operations with call-independent rules as initialisers of weft_operation, without
 * tasks. Run by the build: weft-plan contains them, and links only the pure library. */
#include <stdio.h>

#include "ops/ops.h"

static void print_inputs(const weft_operation *operation)
{
    printf(".inputs = { ");
    for (int i = 0; i < WEFT_MAX_INPUTS && operation->inputs[i].name != NULL; i++) {
        const weft_operation_input *input = &operation->inputs[i];
        printf("{ \"%s\", %uu, %d }, ", input->name, input->types, input->type_of_first);
    }
    printf("},");
}

static void print_outputs(const weft_operation *operation)
{
    printf(" .outputs = { ");
    for (int o = 0; o < WEFT_MAX_OUTPUTS; o++) {
        const weft_operation_output *output = &operation->outputs[o];
        const weft_linearity *linear = &output->linear;
        printf("{ (weft_output_type)%d, { (weft_linear_kind)%d, %uu, %uu, (weft_reduce_op)%d }, %d }, ",
               (int)output->type, (int)linear->kind, linear->inputs, linear->ops, (int)linear->contracts,
               output->in_place);
    }
    printf("}, .joins = %uu, .joins_large = %d, .only_widens = %d },\n", operation->joins, operation->joins_large,
           operation->only_widens);
}

static void print_operation(const weft_operation *operation)
{
    printf("{ .name = \"%s\", .rules = { ", operation->name);
    for (int i = 0; i < WEFT_MAX_RULES && operation->rules[i] != NULL; i++) {
        printf("\"%s\", ", operation->rules[i]);
    }
    printf("}, ");
    print_inputs(operation);
    print_outputs(operation);
}

int main(void)
{
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *operation = *family; *operation != NULL; operation++) {
            if ((*operation)->rules[0] != NULL) {
                print_operation(*operation);
            }
        }
    }
    return 0;
}
