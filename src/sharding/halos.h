/* Halos of a program's own operations: access maps, by the letters of its rule. */
#ifndef WEFT_SRC_SHARDING_HALOS_H
#define WEFT_SRC_SHARDING_HALOS_H

#include "sharding/operation.h"

int weft_count_halos(const weft_operation_description *description);
/* Whether there is one halo for each "~" of the rule, and no other: WEFT_ERR_INVALID with why. */
weft_status weft_halos_check(const weft_operation_description *description, const weft_rule *rule, char *why,
                             size_t why_size);
/* Copies the weft_count_halos() halos of a checked description. */
void weft_halos_copy(const weft_operation_description *description, weft_operation_halo halos[]);
/* The window function of these operations. */
weft_window weft_window_of_halo(const weft_call_layouts *call, int input, int dim);

#endif
