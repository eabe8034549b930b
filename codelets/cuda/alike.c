/* Elementwise kernels that follow each other, and differ in their tensors alone. */
#include <string.h>

#include "codelets/cuda/chain.h"
#include "codelets/elementwise.h"

/* Elements of operands that all lie in one piece; -1: they do not. */
static int64_t count_in_one_piece(const weft_elementwise_args *args, int num_operands)
{
    weft_elementwise_box box;
    weft_elementwise_merge(&box, args, num_operands);
    int64_t count = box.extent[0];
    for (int k = 0; k < num_operands; k++) {
        count = box.ndim == 1 && (box.stride[k][0] == 1 || count == 1) ? count : -1;
    }
    return count;
}

static bool overlap(const weft_alike *alike, const struct weft_alike_set *a, int k, const struct weft_alike_set *b, int j)
{
    const char *one = a->memories[k], *other = b->memories[j];
    return one < other + b->elements * (int64_t)weft_dtype_size(alike->types[j]) &&
           other < one + a->elements * (int64_t)weft_dtype_size(alike->types[k]);
}

/* Whether neither of the two writes what the other one reads or writes. */
static bool are_apart(const weft_alike *alike, const struct weft_alike_set *a, const struct weft_alike_set *b)
{
    bool apart = true;
    for (int k = 0; k < alike->num_memories && apart; k++) {
        apart = !overlap(alike, a, 0, b, k) && !overlap(alike, a, k, b, 0);
    }
    return apart;
}

static bool is_like(const weft_alike *alike, const weft_task_run *run)
{
    const weft_elementwise_args *args = run->arguments;
    bool like = run->kernel == alike->kernel && run->num_operands == alike->num_memories && args->base.dtype == alike->arithmetic &&
                args->common == alike->common && args->converted == alike->converted &&
                memcmp(run->scalars, alike->scalars, sizeof(alike->scalars)) == 0;
    for (int k = 0; k < alike->num_memories && like; k++) {
        like = args->types[k] == alike->types[k];
    }
    return like;
}

static bool add(weft_alike *alike, const weft_task_run *run)
{
    struct weft_alike_set *own = &alike->of[alike->count];
    *own = (struct weft_alike_set){ .elements = count_in_one_piece(run->arguments, run->num_operands) };
    for (int k = 0; k < run->num_operands; k++) {
        own->memories[k] = run->operands[k];
    }
    bool fits = own->elements > 0;
    for (int i = 0; i < alike->count && fits; i++) {
        fits = are_apart(alike, &alike->of[i], own);
    }
    alike->count += fits;
    return fits;
}

int weft_alike_find(const weft_task_run runs[], int count, weft_alike *alike)
{
    const weft_elementwise_args *args = runs[0].arguments;
    alike->kernel = runs[0].kernel;
    alike->num_memories = runs[0].num_operands;
    alike->arithmetic = args->base.dtype;
    alike->common = args->common;
    alike->converted = args->converted;
    alike->count = 0;
    memcpy(alike->types, args->types, sizeof(alike->types));
    memcpy(alike->scalars, runs[0].scalars, sizeof(alike->scalars));
    int n = 0;
    while (n < count && n < WEFT_ALIKE_MOST && is_like(alike, &runs[n]) && add(alike, &runs[n])) {
        n++;
    }
    return n;
}
