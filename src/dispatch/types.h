/* Element types of operations: sets of them, PyTorch's promotion, and how the type of an output follows. PURE. */
#ifndef WEFT_SRC_DISPATCH_TYPES_H
#define WEFT_SRC_DISPATCH_TYPES_H

#include "layout/layout.h"

/* Sets of element types. */
#define WEFT_TYPE_BIT(dtype) (1u << (dtype))
#define WEFT_TYPES_WIDE (WEFT_TYPE_BIT(WEFT_F64) | WEFT_TYPE_BIT(WEFT_F32))
#define WEFT_TYPES_FLOAT (WEFT_TYPES_WIDE | WEFT_TYPE_BIT(WEFT_BF16) | WEFT_TYPE_BIT(WEFT_F16))
#define WEFT_TYPES_INDEX (WEFT_TYPE_BIT(WEFT_I64) | WEFT_TYPE_BIT(WEFT_I32))
#define WEFT_TYPES_INTEGER (WEFT_TYPES_INDEX | WEFT_TYPE_BIT(WEFT_U8))
#define WEFT_TYPES_NUMBER (WEFT_TYPES_FLOAT | WEFT_TYPES_INTEGER)
#define WEFT_TYPES_BOOL WEFT_TYPE_BIT(WEFT_BOOL)
#define WEFT_TYPES_ALL (WEFT_TYPES_NUMBER | WEFT_TYPES_BOOL)

/* How the type of an operation's output follows from its inputs. */
typedef enum weft_output_type {
    WEFT_TYPE_FIRST = 0, /* that of input 0 */
    WEFT_TYPE_PROMOTED,  /* that of all inputs together */
    WEFT_TYPE_FLOATING,  /* the same, but WEFT_F32 for integers and truth values */
    WEFT_TYPE_SUMMED,    /* that of input 0, but WEFT_I64 for integers and truth values */
    WEFT_TYPE_TRUTH,     /* WEFT_BOOL */
    WEFT_TYPE_PLACE,     /* WEFT_I64: an index */
    WEFT_TYPE_LAST,      /* that of the last input */
    WEFT_TYPE_GIVEN      /* the call's attributes say it */
} weft_output_type;

bool weft_dtype_is_floating(weft_dtype dtype);
/* Whether values of `from` may be stored as `to`: not where that is of a lower category (truth value, integer,
 * floating). */
bool weft_dtype_can_hold(weft_dtype to, weft_dtype from);

/* PyTorch's promote_types(): the smaller type that both fit in, of the same category where they share one; two 16-bit
 * floating types give WEFT_F32. */
weft_dtype weft_promote(weft_dtype a, weft_dtype b);
/* PyTorch's result_type(): tensors without dimensions count only where theirs is the higher category (truth value,
 * integer, floating). */
weft_dtype weft_promoted(int num_inputs, const weft_layout *const inputs[]);

weft_dtype weft_output_dtype(weft_output_type kind, int num_inputs, const weft_layout *const inputs[],
                             weft_dtype given);

#endif
