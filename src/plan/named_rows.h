/* The rows that one part of a mesh dimension names in a list, by the part that has them. PURE. */
#ifndef WEFT_SRC_PLAN_NAMED_ROWS_H
#define WEFT_SRC_PLAN_NAMED_ROWS_H

#include "layout/layout.h"

typedef struct weft_named_rows {
    int64_t parts, count;  /* of the cut; of the list */
    int64_t *begin;        /* parts + 1: where each part's rows begin in `rows` */
    int64_t *rows;         /* numbers within the part, ascending, each once */
    int64_t *number;       /* by position in the list: the row's place in `rows` */
    int64_t *first_place;  /* by part: the position of its first row, where the list has its rows once each, in their order and one
                              after the other; else -1 */
} weft_named_rows;

/* Finds them for `count` indices of 0 .. size - 1, which `cut` divides. False: no memory. The caller frees them in either case. */
bool weft_named_rows_find(weft_named_rows *named, weft_placement cut, int64_t size, int64_t parts, int64_t count,
                          const int64_t indices[]);
void weft_named_rows_free(weft_named_rows *named);

#endif
