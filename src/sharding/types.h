/* Element types of operations: PyTorch's promotion, and how the type of an output follows (weft_output_type).
 * PURE. */
#ifndef WEFT_SRC_SHARDING_TYPES_H
#define WEFT_SRC_SHARDING_TYPES_H

#include <weft/operation.h>

#include "codelets/complex.h"
#include "layout/layout.h"

/* Not the complex types (codelets/complex.h). */
bool weft_dtype_is_floating(weft_dtype dtype);
/* Whether numbers of the type have derivatives: floating and complex types. */
bool weft_dtype_has_gradient(weft_dtype dtype);
/* Whether values of `from` may be stored as `to`: not if the category of `to` is lower (truth value,
 * integer, floating, complex). */
bool weft_dtype_can_hold(weft_dtype to, weft_dtype from);

/* PyTorch's promote_types(): the smaller type that holds both, of their category if they share one; two
 * 16-bit floating types give WEFT_F32, WEFT_I8 and WEFT_U8 give WEFT_I16. With a complex type it is complex, and of WEFT_F64 if one is. */
weft_dtype weft_promote(weft_dtype a, weft_dtype b);
/* Whether PyTorch promotes the two: not unsigned integers of more than 8 bits beside other integers, truth values or complex
 * numbers, and no type of WEFT_TYPES_STORED. weft_promote() gives some type all the same. */
bool weft_have_common_type(weft_dtype a, weft_dtype b);
/* The same for inputs as weft_promoted() takes them; NULL: not promoted with the others. False: `refused` are two that have none. */
bool weft_are_promoted(int num_inputs, const weft_layout *const inputs[], int refused[2]);
/* PyTorch's result_type(): tensors without dimensions count only if their category is higher (truth value,
 * integer, floating). */
weft_dtype weft_promoted(int num_inputs, const weft_layout *const inputs[]);

weft_dtype weft_output_dtype(weft_output_type kind, int num_inputs, const weft_layout *const inputs[],
                             weft_dtype given);

#endif
