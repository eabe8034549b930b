/* Descriptions of operations by the program: to register one (registered.c), to replace one of the library's (replaced.c).
 */
#ifndef WEFT_SRC_DISPATCH_DESCRIPTION_H
#define WEFT_SRC_DISPATCH_DESCRIPTION_H

#include "sharding/operation.h"

/* Whether two operands of a rule have the same dimensions. */
bool weft_rule_same_dims(const weft_rule_operand *a, const weft_rule_operand *b);
/* False with the error kept. */
bool weft_check_linearity(const char *function, int output, const weft_linearity *linear, int num_inputs);
bool weft_check_halos(const char *function, const weft_operation_description *description,
                      const weft_rule *rule);
/* A hash of the fields that must be equal on all processes: not of addresses. */
uint64_t weft_description_fingerprint(const weft_operation_description *description);

#endif
