/* For the tables of calls, calls_*.c: one for each group of families. */
#ifndef WEFT_TESTS_ORACLE_CALLS_H
#define WEFT_TESTS_ORACLE_CALLS_H

#include "dims.h"
#include "oracle.h"

/* The tables; each ends with a row without a name. */
extern const oracle_operation oracle_core_operations[];
extern const oracle_operation oracle_shape_operations[];
extern const oracle_operation oracle_around_operations[];
extern const oracle_operation oracle_indexing_operations[];
extern const oracle_operation oracle_equation_operations[];
extern const oracle_operation oracle_scatter_operations[];
extern const oracle_operation oracle_product_operations[];
extern const oracle_operation oracle_image_operations[];
extern const oracle_operation oracle_nn_operations[];
extern const oracle_operation oracle_loss_operations[];
extern const oracle_operation oracle_normalize_operations[];
extern const oracle_operation oracle_optimizer_operations[];

/* Attributes that many have: "dims", as many as it returns, and "keepdim". \{ */
int oracle_dims(const oracle_case *c, int dims[]);
bool oracle_keepdim(const oracle_case *c);
/* \} */
/* An attribute as a whole number. */
int64_t oracle_whole(const oracle_case *c, const char *name);

/* ---- calls with attributes ----------------------------------------------------------------------------- */

/* The function that a row of CALLED() calls: the first output. */
#define CALL(name) static weft_tensor *call_##name(const oracle_case *c, weft_tensor *const in[])
/* The same with further outputs, in out[1], out[2], ... */
#define CALL_SEVERAL(name)                                                                                   \
    static weft_tensor *call_##name(const oracle_case *c, weft_tensor *const in[], weft_tensor *out[])
/* A tensor, or two, and a number. */
#define WITH_NUMBER(name, attribute)                                                                         \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], oracle_number(c, attribute));                                              \
    }
#define TWO_WITH_NUMBER(name, attribute)                                                                     \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], in[1], oracle_number(c, attribute));                                       \
    }
#define THREE_WITH_NUMBER(name, attribute)                                                                   \
    CALL(name)                                                                                               \
    {                                                                                                        \
        return weft_##name(in[0], in[1], in[2], oracle_number(c, attribute));                                \
    }

/* ---- rows ---------------------------------------------------------------------------------------------- */

#define UNARY(name_, ...)                                                                                    \
    {                                                                                                        \
        .name = #name_, .unary = weft_##name_, __VA_ARGS__                                                   \
    }
#define BINARY(name_, ...)                                                                                   \
    {                                                                                                        \
        .name = #name_, .binary = weft_##name_, __VA_ARGS__                                                  \
    }
#define TERNARY(name_, ...)                                                                                  \
    {                                                                                                        \
        .name = #name_, .ternary = weft_##name_, __VA_ARGS__                                                 \
    }
#define SEVERAL(name_, ...)                                                                                  \
    {                                                                                                        \
        .name = #name_, .several = call_##name_, __VA_ARGS__                                                 \
    }
#define CALLED(name_, ...)                                                                                   \
    {                                                                                                        \
        .name = #name_, .call = call_##name_, __VA_ARGS__                                                    \
    }
/* Over one dimension, over several, over all. */
#define REDUCTION(name_, ...)                                                                                \
    { .name = #name_, .over_dim = weft_##name_, __VA_ARGS__ },                                               \
        { .name = #name_ "_over", .over_dims = weft_##name_, __VA_ARGS__ },                           \
    {                                                                                                        \
        .name = #name_ "_all", .over_all = weft_##name_, __VA_ARGS__                                         \
    }
#define WITHIN(ulps_, why_) .ulps = (ulps_), .why = (why_)

#define EXACT .ulps = 0
#define LIBRARY WITHIN(2, "the C library's function and PyTorch's, each within one")
#define SPECIAL WITHIN(12, "sums of terms of both signs, in another order")
#define ROUNDINGS WITHIN(3, "several roundings in a row")
#define SCALAR WITHIN(1, "the number is rounded to the tensor's type first")
#define ORDER WITHIN(4, "sums in another order")

#endif
