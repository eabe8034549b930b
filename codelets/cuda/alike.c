/* Elementwise kernels that follow each other, and differ in their tensors alone. */
#include <string.h>

#include "codelets/cuda/chain.h"
#include "codelets/elementwise.h"

/* Elements of operands that lie in one piece each, or are one element: their steps. -1: they are not so. */
static int64_t find_pieces(const weft_elementwise_args *args, int num_operands, int step[])
{
    weft_elementwise_box box;
    weft_elementwise_merge(&box, args, num_operands);
    int64_t count = box.ndim == 1 ? box.extent[0] : -1;
    for (int k = 0; k < num_operands; k++) {
        step[k] = k > 0 && box.stride[k][0] == 0 ? 0 : 1;
        count = box.stride[k][0] == step[k] || count == 1 ? count : -1;
    }
    return count;
}

static int64_t bytes_of(const weft_alike *alike, const weft_alike_set *set, int k)
{
    return (alike->step[k] == 0 ? 1 : set->elements) * (int64_t)weft_dtype_size(alike->types[k]);
}

static bool overlap(const weft_alike *alike, const weft_alike_set *a, int k, const weft_alike_set *b, int j)
{
    const char *one = a->memories[k], *other = b->memories[j];
    return one < other + bytes_of(alike, b, j) && other < one + bytes_of(alike, a, k);
}

/* Whether neither of the two writes what the other one reads or writes. */
static bool are_apart(const weft_alike *alike, const weft_alike_set *a, const weft_alike_set *b)
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
    weft_alike_set *own = &alike->of[alike->count];
    int step[WEFT_ALIKE_MEMORIES];
    *own = (weft_alike_set){ .elements = find_pieces(run->arguments, run->num_operands, step) };
    bool fits = own->elements > 0;
    for (int k = 0; k < run->num_operands; k++) {
        own->memories[k] = run->operands[k];
        alike->step[k] = alike->count == 0 ? step[k] : alike->step[k];
        fits = fits && (step[k] == alike->step[k] || own->elements == 1);
    }
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
