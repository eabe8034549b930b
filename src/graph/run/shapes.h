/* Sizes of a graph's inputs: relations that the program requires, and those that have held in all calls. Pure: numbers alone.
 */
#ifndef WEFT_SRC_GRAPH_RUN_SHAPES_H
#define WEFT_SRC_GRAPH_RUN_SHAPES_H

#include "graph/run/size_sums.h"

/* ---- required relations ------------------------------------------------------------------------------------ */

typedef enum weft_shape_kind {
    WEFT_SHAPE_EQUAL,
    WEFT_SHAPE_UNEQUAL,
    WEFT_SHAPE_AT_LEAST,
    WEFT_SHAPE_MODULO,
    WEFT_SHAPE_NOT_MODULO
} weft_shape_kind;

/* `sum` is equal to 0, or not; at least 0; or, modulo `divisor`, equal to 0, or not. */
typedef struct weft_shape_relation {
    weft_shape_kind kind;
    weft_size_sum sum; /* its first factor is positive but for WEFT_SHAPE_AT_LEAST */
    weft_size_sum divisor; /* a number, at least 1, or a sum of sizes */
    const char *text;
} weft_shape_relation;

/* Reads "2*i0.0 + 3 == i1.0", "i0.1 % 8 == 0", "i0.0*i0.1 % (i0.0 - 1) == 0", "i0.0 == i1.0**3": sums of products, one comparison
 * (==, !=, <=, >=, <, >); the left side may be a product % a product. False, with the reason: another text. */
bool weft_shape_read(const char *text, weft_shape_relation *relation, char *why, size_t size);
/* The size number `at` of those that a relation names; false: it names fewer. */
bool weft_shape_named(const weft_shape_relation *relation, int at, int *input, int *dim);
/* Whether the sizes have the relation. A sum beyond 64 bits, or a divisor below 1: they have not. first[k]: of the sizes of input
 * k. */
bool weft_shape_holds(const weft_shape_relation *relation, const int64_t sizes[], const int first[]);
/* False: a sum is beyond 64 bits, or a divisor below 1. */
bool weft_shape_is_defined(const weft_shape_relation *relation, const int64_t sizes[], const int first[]);
/* Whether all sizes that have the first relation have the second: true is a proof, false is none of the contrary. */
bool weft_shape_implies(const weft_shape_relation *one, const weft_shape_relation *other);
/* Writes the text of a relation with the opposite comparison: "i0.0 != 3" for "i0.0 == 3". Truncated. */
void weft_shape_negate(const char *text, char *negated, size_t size);

/* ---- relations that have held ------------------------------------------------------------------------------ */

enum { WEFT_SHAPE_TRACKED = 24 }; /* sizes: those of the first inputs */

typedef struct weft_size_history {
    int64_t min, max, divisor; /* greatest common divisor of all */
    bool changed;
} weft_size_history;

/* y = a x + b */
typedef struct weft_size_line {
    int64_t x, y; /* the first point */
    int64_t other; /* x of the second one */
    int64_t a, b;
    int num_points; /* of different x */
    bool broken;
} weft_size_line;

typedef struct weft_shape_history {
    int num_sizes;
    int64_t num_calls;
    weft_size_history sizes[WEFT_SHAPE_TRACKED];
    weft_size_line lines[WEFT_SHAPE_TRACKED][WEFT_SHAPE_TRACKED]; /* [y][x], x < y */
} weft_shape_history;

/* Notes the sizes of a call: `count`, the same number each time; those after WEFT_SHAPE_TRACKED are not. */
void weft_shape_note(weft_shape_history *history, int count, const int64_t sizes[]);
/* The number of the symbol of a size that has changed: s0, s1, ... in the order of sizes, the same one for sizes that were
 * always equal. -1: it has not changed. */
int weft_shape_symbol(const weft_shape_history *history, int size);
/* The size, and an earlier one of which it is a linear function, as three points or more have shown: y = a x + b. -1: none. */
int weft_shape_line(const weft_shape_history *history, int size, int64_t *a, int64_t *b);

#endif
