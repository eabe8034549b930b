#include "calls.h"

#include <string.h>

static const operation *const tables[] = {
    tensor_calls,    scope_calls, complex_calls,   elementwise_calls, number_calls, special_calls, combined_calls, reduction_calls, shape_calls,
    part_calls,      around_calls,  join_calls,    indexing_calls,    statistics_calls, scatter_calls, selection_calls,   sorting_calls,  product_calls,   convolution_calls, image_calls,
    attention_calls, softmax_calls, norm_calls, normalize_calls,        loss_calls, element_loss_calls,     random_calls,    optimizer_calls,
    gradient_calls,
};

bool operation_at(int i, const operation **found)
{
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (*found = tables[t]; (*found)->name != NULL; (*found)++) {
            if (i-- == 0) {
                return true;
            }
        }
    }
    return false;
}

const operation *operation_find(const char *name)
{
    const operation *found;
    for (int i = 0; operation_at(i, &found); i++) {
        if (strcmp(found->name, name) == 0) {
            return found;
        }
    }
    return NULL;
}

int operation_index(const operation *wanted)
{
    int before = 0;
    for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
        for (const operation *row = tables[t]; row->name != NULL; row++) {
            if (row == wanted) {
                return before;
            }
            before++;
        }
    }
    return -1;
}

int operation_count(void)
{
    const operation *found;
    int count = 0;
    while (operation_at(count, &found)) {
        count++;
    }
    return count;
}

bool operation_steps(const operation *row)
{
    for (const operation *known = optimizer_calls; known->name != NULL; known++) {
        if (known == row) {
            return strcmp(row->name, "clip_grad_norm") != 0; /* it changes gradients */
        }
    }
    return false;
}
