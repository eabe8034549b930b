/* Sizes of a graph's inputs: relations that the program requires, and those that have held in all calls. Pure: numbers alone.
 *
 * Dimension D of inputs[K] is written iK.D; sizes are passed as an array, with a table of the first size of each input. */
#ifndef WEFT_SRC_GRAPH_RUN_SHAPES_H
#define WEFT_SRC_GRAPH_RUN_SHAPES_H

#include "base/base.h"

/* ---- required relations ------------------------------------------------------------------------------------ */

enum { WEFT_SHAPE_TERMS = 8, WEFT_SHAPE_FACTORS = 3 };

/* A number times sizes. */
typedef struct weft_shape_term {
    int64_t factor;
    int num_sizes;
    struct {
        int input, dim;
    } sizes[WEFT_SHAPE_FACTORS]; /* sorted */
} weft_shape_term;

typedef enum weft_shape_kind {
    WEFT_SHAPE_EQUAL,
    WEFT_SHAPE_UNEQUAL,
    WEFT_SHAPE_AT_LEAST,
    WEFT_SHAPE_MODULO,
    WEFT_SHAPE_NOT_MODULO
} weft_shape_kind;

/* The sum of terms and a number is equal to 0, or not; at least 0; or, modulo `divisor`, equal to 0, or not. */
typedef struct weft_shape_relation {
    weft_shape_kind kind;
    int num_terms;
    weft_shape_term terms[WEFT_SHAPE_TERMS]; /* of different sizes, sorted; the first one's factor is positive but for
                                                WEFT_SHAPE_AT_LEAST */
    int64_t number, divisor;
    const char *text;
} weft_shape_relation;

/* Reads "2*i0.0 + 3 == i1.0", "i0.1 % 8 == 0", "i0.0*i0.1 >= 6", "i0.0 != 1": sums of products, one comparison (==, !=, <=, >=,
 * <, >), % after the left side. False, with the reason: another text. */
bool weft_shape_read(const char *text, weft_shape_relation *relation, char *why, size_t size);
/* Whether the sizes have the relation. A sum beyond 64 bits: they have not. first[k]: of the sizes of input k. */
bool weft_shape_holds(const weft_shape_relation *relation, const int64_t sizes[], const int first[]);
/* Whether all sizes that have the first relation have the second: true is a proof, false is none of the contrary. */
bool weft_shape_implies(const weft_shape_relation *one, const weft_shape_relation *other);

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
