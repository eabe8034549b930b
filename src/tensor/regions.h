/* Named regions and redistribution (<weft/regions.h>). */
#ifndef WEFT_SRC_TENSOR_REGIONS_H
#define WEFT_SRC_TENSOR_REGIONS_H

#include "tensor/tensor.h"

/* Whether a region is open. */
bool weft_in_region(void);
bool weft_is_strict(void);
/* False with the error kept: a strict region is open, and `what` would be redistributed implicitly. */
bool weft_check_explicit(const char *function, const char *what, const weft_layout *from, const weft_layout *to);
/* The same where ranks would read others' parts of `what` through an access map. */
bool weft_check_explicit_access(const char *function, const char *what, const weft_layout *from,
                                const weft_access_map *map);
/* Prints a plan that is carried out in a printing region. */
void weft_print_move(const char *function, const weft_plan *plan);
/* Whether every rank has its part of `to` in its part of `from` (redistribute.c). */
bool weft_is_local_slice(const weft_layout *from, const weft_layout *to);
void weft_regions_stop(void);

#endif
