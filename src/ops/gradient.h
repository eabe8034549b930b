/* Gradients of calls. An operation has a function that computes the gradients of its inputs from those of
 * its outputs by further calls (weft_operation.gradient), so that they run as tasks, in any layout, and
 * have gradients themselves. */
#ifndef WEFT_SRC_OPS_GRADIENT_H
#define WEFT_SRC_OPS_GRADIENT_H

#include <weft/ops.h>

#include "dispatch/dispatch.h"

/* Writes the wanted gradients: of the input's shape and type, in any layout, in the innermost scope; NULL
 * for zero. WEFT_ERR_UNSUPPORTED if the operation's gradient is unknown. */
weft_status weft_call_gradients(const weft_gradient *of);

/* Why the outputs of a call depend on no input, so that there is no gradient. NULL: they depend on some. */
const char *weft_call_no_gradient(const weft_call *call);
/* Why the gradient of a call is not known, though its outputs depend on inputs. NULL: it is. */
const char *weft_call_missing_gradient(const weft_call *call);
/* The values that the wanted gradients are computed from: WEFT_READS_INPUT(), _OUTPUT(). Inputs after the
 * first WEFT_MAX_INPUTS are read only by calls for which weft_call_gradient_reads_all(). */
unsigned weft_call_gradient_reads(const weft_call *call, const bool wanted[]);
bool weft_call_gradient_reads_all(const weft_call *call);

/* ---- for the functions of operations -------------------------------------------------------------------- */

static inline bool weft_gradient_wanted(const weft_gradient *of, int input)
{
    return of->wanted[input];
}

/* Whether an input's gradient, a sum in WEFT_F32, is better not rounded: the input was converted from that type. Else ranks'
 * parts of the sum would have to be added before the rounding, for each of the calls that read the input. */
static inline bool weft_gradient_is_wide(const weft_gradient *of, int input)
{
    return of->wide != NULL && of->wide[input];
}

/* The gradient of an output: NULL for zero. */
static inline weft_tensor *weft_gradient_of_output(const weft_gradient *of, int output)
{
    return of->output_gradients[output];
}

/* An input's gradient: broadcast dimensions are summed, and the type becomes the input's, unless it may be wide; of
 * a complex gradient of a real input the real part. NULL: an error is
 * kept. */
bool weft_give_gradient(const weft_gradient *of, int input, weft_tensor *gradient);

/* The conjugate of a complex tensor; a real one itself. NULL for NULL. */
weft_tensor *weft_conjugate(weft_tensor *a);

/* The gradient of the output is that of every input, up to broadcasting. */
bool weft_gradient_same(const weft_gradient *of);

/* For a composite without other gradient: those of its body's calls, which are made again from the inputs. Nothing in the
 * body changes a tensor, and it asks for all outputs that gradients of its calls read. */
bool weft_gradient_of_body(const weft_gradient *of);

#define WEFT_GRADIENT_OF_BODY                                                                                \
    {                                                                                                        \
        .function = weft_gradient_of_body, .reads_inputs = true                                              \
    }
/* The same where no value of the inputs matters. */
#define WEFT_GRADIENT_OF_MOVES                                                                               \
    {                                                                                                        \
        .function = weft_gradient_of_body                                                                    \
    }
#define WEFT_GRADIENT_SAME                                                                                           \
    {                                                                                                        \
        .function = weft_gradient_same                                                                       \
    }
#define WEFT_GRADIENT_ZERO(why)                                                                              \
    {                                                                                                        \
        .zero = (why)                                                                                        \
    }
#define WEFT_GRADIENT_MISSING(why)                                                                           \
    {                                                                                                        \
        .missing = (why)                                                                                     \
    }
#define WEFT_GRADIENT_STEP                                                                                  \
    {                                                                                                        \
        .missing = "a step of an optimiser", .steps = true                                                   \
    }
/* For an operation that only other functions call. */
#define WEFT_GRADIENT_OF_WHOLE(whole) WEFT_GRADIENT_MISSING("a part of " whole)
/* A function of one value, from its input or its output. */
#define WEFT_GRADIENT_BY(function_, reads_)                                                                  \
    {                                                                                                        \
        .function = (function_), .reads = { reads_ }                                                         \
    }

#endif
