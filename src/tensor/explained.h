/* Explanations of calls (<weft/explain.h>): where their text goes, and explicit redistributions. */
#ifndef WEFT_SRC_TENSOR_EXPLAINED_H
#define WEFT_SRC_TENSOR_EXPLAINED_H

#include "tensor/tensor.h"

/* Between weft_explain_begin() and weft_explain_end(). */
bool weft_is_explaining(void);
/* Where calls are explained; NULL: they are not. The calls of an expansion are when it is run, not when it is made. */
FILE *weft_explained_file(void);
/* Explains a redistribution that was asked for, or is a part of a call. */
void weft_explain_move(const char *function, const weft_layout *from, const weft_layout *to);
/* The same of what ranks read of each other through an access map. */
void weft_explain_access(const weft_layout *from, const weft_access_map *access_map);
void weft_explained_stop(void);

#endif
