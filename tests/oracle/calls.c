/* The tables of calls of all operations and of their tolerances. */
#include "calls.h"

#include <string.h>

/* ---- attributes ---------------------------------------------------------------------------------------- */

int oracle_dims(const oracle_case *c, int dims[])
{
    int64_t numbers[WEFT_MAX_DIMS];
    int count = oracle_list(c, "dims", numbers);
    for (int i = 0; i < count; i++) {
        dims[i] = (int)numbers[i];
    }
    return count;
}

bool oracle_keepdim(const oracle_case *c)
{
    return oracle_number(c, "keepdim") != 0;
}

int64_t oracle_whole(const oracle_case *c, const char *name)
{
    return (int64_t)oracle_number(c, name);
}

/* ---- the operations ------------------------------------------------------------------------------------ */

/* Of all families. */
static const oracle_operation *const tables[] = {
    oracle_core_operations,
    oracle_shape_operations,
    oracle_around_operations,
    oracle_indexing_operations,
    oracle_equation_operations,
    oracle_scatter_operations,
    oracle_product_operations,
    oracle_image_operations,
    oracle_nn_operations,
    oracle_loss_operations,
    oracle_normalize_operations,
    oracle_optimizer_operations,
};

bool oracle_operation_at(int i, const oracle_operation **operation)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (*operation = tables[t]; (*operation)->name != NULL; (*operation)++) {
            if (i-- == 0) {
                return true;
            }
        }
    }
    return false;
}

const oracle_operation *oracle_find(const char *name)
{
    const oracle_operation *operation;
    for (int i = 0; oracle_operation_at(i, &operation); i++) {
        if (strcmp(operation->name, name) == 0) {
            return operation;
        }
    }
    return NULL;
}

void oracle_call(const oracle_operation *operation, const oracle_case *c, weft_tensor *const in[],
                 weft_tensor *out[])
{
    if (operation->unary != NULL) {
        out[0] = operation->unary(in[0]);
    } else if (operation->binary != NULL) {
        out[0] = operation->binary(in[0], in[1]);
    } else if (operation->ternary != NULL) {
        out[0] = operation->ternary(in[0], in[1], in[2]);
    } else if (operation->over_dim != NULL) {
        out[0] = operation->over_dim(in[0], (int)oracle_whole(c, "dim"), oracle_keepdim(c));
    } else if (operation->over_all != NULL) {
        out[0] = operation->over_all(in[0], WEFT_ALL_DIMS, false);
    } else if (operation->over_dims != NULL) {
        int dims[WEFT_MAX_DIMS], count = oracle_dims(c, dims);
        out[0] = operation->over_dims(in[0], set_of_dims(count, dims), oracle_keepdim(c));
    } else if (operation->several != NULL) {
        out[0] = operation->several(c, in, out);
    } else {
        out[0] = operation->call(c, in);
    }
}
