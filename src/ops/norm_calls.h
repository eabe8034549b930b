/* Shared by norms and their gradients: the letters of their rules, and their calls. */
#ifndef WEFT_SRC_OPS_NORM_CALLS_H
#define WEFT_SRC_OPS_NORM_CALLS_H

#include "codelets/norms.h"
#include "ops/row_reduce.h"

/* Rule letters of a tensor of vectors, "a*b*[c][d]", or "a*b*c*d*" if sharded; and of its statistics. */
typedef struct weft_norm_letters {
    char tensor[WEFT_LETTERS_SIZE];
    char statistic[WEFT_LETTERS_SIZE];  /* "ab11" */
    char sums[WEFT_LETTERS_SIZE];       /* "ab1[z]" */
    char vector[WEFT_LETTERS_SIZE];     /* "cd" */
    char one_vector[WEFT_LETTERS_SIZE]; /* "11cd" */
} weft_norm_letters;

weft_norm_letters weft_norm_write_letters(const weft_call_layouts *call, const weft_layout *a);
/* `num_tensors` tensors of vectors, then the parts in the order of codelets/norms.h. */
void weft_norm_write_inputs(const weft_call_layouts *call, const weft_norm_letters *l, int num_tensors,
                            const char *output, char *buffer, size_t size);

typedef struct weft_norm_call {
    const char *function;
    bool centred;
    weft_tensor *a, *gradient, *gain, *bias; /* all but a may be NULL */
    double epsilon;
    int64_t first, mask;          /* first dimension of the vectors, and mask of their dimensions */
    weft_tensor *mean, *variance; /* of sharded vectors, or given; else NULL */
    bool has_rstd;                /* given: in the place of the variance, 1 / sqrt(variance + epsilon) */
    bool parts;                   /* vectors are sharded */
} weft_norm_call;

/* Bits of the dimensions from `first` on. */
int64_t weft_norm_mask(int ndim, int64_t first);
bool weft_norm_has_elements(const weft_layout *layout);
/* With all inputs of the norm. */
weft_call weft_norm_call_of(const weft_norm_call *n, const weft_operation *operation, weft_dtype type,
                            weft_tensor *sums, weft_tensor *gain, weft_tensor *bias);
/* The norm of a call whose gain, if there is one, is input `used`. */
weft_norm_call weft_norm_of(const weft_call *call, int used);
/* Finds the vectors' dimensions; the other arguments are live tensors or NULL. False with the error kept. */
bool weft_norm_check(weft_norm_call *n, bool has_gradient);
/* Brings the tensors to where `layout` has them, and computes the statistics of sharded vectors, or brings those that
 * are given. False with the error kept. */
bool weft_norm_take_statistics(weft_norm_call *n, const weft_layout *layout);

/* The gradients of a call of a norm (norms_backward.c). */
bool weft_gradients_of_norm(const weft_gradient *of);
/* The gradients of these (norms_second.c). */
bool weft_gradients_of_norm_gradients(const weft_gradient *of);

#endif
