/* Error words of the library's kernels; src/runtime/problems.c turns them into messages. */
#ifndef WEFT_CODELETS_PROBLEMS_H
#define WEFT_CODELETS_PROBLEMS_H

#include <weft/kernel.h>

typedef enum weft_problem {
    WEFT_PROBLEM_NONE,
    WEFT_PROBLEM_RANGE,  /* input `input` has `value`, expected 0 to `bound` */
    WEFT_PROBLEM_CHANCE, /* input `input` has `number`, expected 0 to 1 */
    WEFT_PROBLEM_DEVICE, /* the kernel's launch failed: `value` is the weft_cuda_run's result */
    /* No memory: */
    WEFT_PROBLEM_SORT, /* for `value` values */
    WEFT_PROBLEM_RESULTS,
    WEFT_PROBLEM_ROW,
    WEFT_PROBLEM_VECTOR,
    WEFT_PROBLEM_BLOCKS,
    WEFT_PROBLEM_COLUMNS,
    WEFT_PROBLEM_BLOCK_OF_PRODUCT,
    WEFT_PROBLEM_PRODUCT,
    WEFT_PROBLEM_PARTS /* of rank `value` */
} weft_problem;

/* Each keeps only the first problem. */
static inline bool weft_problem_is_first(weft_kernel_error *error, weft_status status, weft_problem problem)
{
    if (error->status != WEFT_OK) {
        return false;
    }
    error->status = status;
    error->problem = (int)problem;
    return true;
}

static inline void weft_problem_range(weft_kernel_error *error, int input, int64_t value, int64_t bound)
{
    if (weft_problem_is_first(error, WEFT_ERR_INVALID, WEFT_PROBLEM_RANGE)) {
        error->input = input;
        error->value = value;
        error->bound = bound;
    }
}

static inline void weft_problem_chance(weft_kernel_error *error, int input, double number)
{
    if (weft_problem_is_first(error, WEFT_ERR_INVALID, WEFT_PROBLEM_CHANCE)) {
        error->input = input;
        error->number = number;
    }
}

static inline void weft_problem_device(weft_kernel_error *error, int64_t cuda_error)
{
    if (weft_problem_is_first(error, WEFT_ERR_UNSUPPORTED, WEFT_PROBLEM_DEVICE)) {
        error->value = cuda_error;
    }
}

static inline void weft_problem_memory(weft_kernel_error *error, weft_problem problem, int64_t value)
{
    if (weft_problem_is_first(error, WEFT_ERR_NOMEM, problem)) {
        error->value = value;
    }
}

#endif
