/* Shared by tests that force the dispatcher to use other strategies than the cheapest: calls, drawn before
 * their inputs' layouts. */
#ifndef WEFT_TESTS_FORCED_CALLS_H
#define WEFT_TESTS_FORCED_CALLS_H

#include "operand.h"

enum { MAX_OPERANDS = 3 };

/* A call without layouts of inputs. */
typedef struct plan {
    int num_inputs;
    struct {
        weft_dtype dtype;
        int ndim;
        int64_t shape[WEFT_MAX_DIMS];
        int64_t limit; /* above 0: indices below it */
    } inputs[MAX_OPERANDS];
    weft_dtype dtype; /* of all inputs but indices, where a file draws one */
    int dim;
    int64_t size;
    bool keepdim, first, second;
    bool in_place; /* a target that is Partial allows little: it is not */
    double roundings;
    double large; /* about the size of half of the numbers */
} plan;

typedef struct program {
    row_place place;
    const char *name;
    void (*draw)(plan *p);
    weft_tensor *(*call)(const plan *p, weft_tensor *const in[]);
} program;

/* The function of a program. */
#define CALL(name, expression)                                                                               \
    static weft_tensor *call_##name(const plan *p, weft_tensor *const in[])                                  \
    {                                                                                                        \
        (void)p;                                                                                             \
        return expression;                                                                                   \
    }

void add_input(plan *p, weft_dtype dtype, int ndim, const int64_t shape[]);
void add_indices(plan *p, weft_dtype dtype, int ndim, const int64_t shape[], int64_t limit);

/* Attention of inputs q, k and v, causal where p->first; and its gradient for q, k or v, where the output
 * is the gradient too. */
weft_tensor *call_attention(const plan *p, weft_tensor *const in[]);
weft_tensor *attention_gradient(const plan *p, weft_tensor *const in[], int which);

/* The call in one of its combinations; NULL: an input cannot be redistributed so. *combinations: their
 * number. */
weft_tensor *call_forced(const program *run, const plan *p, weft_tensor *const in[], int64_t combination,
                         int64_t *combinations);

#endif
