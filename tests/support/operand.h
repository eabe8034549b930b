/* A distributed tensor in a random layout with its dense value, for the tests of operations. */
#ifndef WEFT_TESTS_OPERAND_H
#define WEFT_TESTS_OPERAND_H

#include "support.h"

enum { MAX_RANKS = 8, MAX_SIZE = 17 };

/* The generator of all that is random in a test. */
extern prng source;

typedef struct operand {
    weft_tensor *tensor;
    weft_mesh *mesh;
    weft_placement placements[3];
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t count;
    double *dense;
    bool exact; /* the tensor's value is `dense` without rounding */
} operand;

/* 0 .. n - 1 */
int64_t below(int64_t n);
/* A size 0 .. MAX_SIZE, often 0 or 1. */
int64_t any_size(void);
weft_dtype any_float(void);
weft_dtype any_number(void);
weft_dtype any_index(void);
/* A mesh of 1 to MAX_RANKS ranks. */
weft_mesh *any_mesh(void);

typedef enum value_kind { WHOLE, REAL, INDEX } value_kind;

/* A tensor of random values in a random layout: whole numbers -5 .. 5, reals of about -3 .. 3, or indices
 * below `limit`. Partial ones are made of random addends. */
operand make_operand(weft_mesh *mesh, weft_dtype dtype, int ndim, const int64_t shape[], value_kind kind,
                     int64_t limit);
/* Makes the tensor of an operand whose other fields are set. */
void realise(operand *x);
/* Frees the dense value; the tensor belongs to its scope. */
void release(operand *x);

bool any_partial(const operand *x);
const char *describe_operand(const operand *x);

/* Asserts that the tensor has this shape and these values, up to `roundings` of a number as large as
 * `magnitude`: on every rank (Partial ones are reduced first), and to the host. Replicas must have the same
 * bits. */
void check(weft_tensor *tensor, weft_dtype dtype, int ndim, const int64_t shape[], const double *expected,
           double roundings, double magnitude, const char *what);
/* Number of calls of check(). */
extern long checks_made;

/* Any floating type. */
weft_dtype any_float_type(void);
/* An operand whose type may have 16 bits: made as WEFT_F32 of small whole numbers, then converted. */
operand make_narrow(weft_mesh *mesh, weft_dtype type, int ndim, const int64_t shape[], value_kind kind);
/* check() of a result that may have 16 bits and is rounded once: exact sums have one result; others differ
 * by at most half a unit, on either side if a sum is halfway between two numbers. */
void check_narrow(weft_tensor *result, weft_dtype type, int ndim, const int64_t shape[],
                  const double *expected, double roundings, double magnitude, const char *what);
/* Two results of one call: the same layout, and the same bits on every rank. */
void check_repeats(weft_tensor *a, weft_tensor *b);

/* The cases of one operation: each call is one. */
typedef struct family {
    const char *name;
    void (*run)(void);
} family;

/* Starts MAX_RANKS ranks with panels as a variable says (WEFT_PANEL_ROWS, WEFT_PANEL_BYTES), or (NULL) by
 * default. */
void start_world(const char *variable, const char *value);
/* With another seed of random numbers than by default. */
void start_seeded_world(const char *variable, const char *value, uint64_t seed);
/* Shared by the files of operations: cases of each family in worlds with panels of several heights. */
typedef struct suite {
    const family *families;
    size_t num_families;
    int cases; /* per family and height, a quarter with several processes; WEFT_TEST_CASES overrides */
    uint64_t seed;
    void (*start)(const char *variable, const char *value); /* NULL: start_world() */
} suite;

/* Runs functions one after another, in a world with panels by default and in one scope. */
void run_single_calls(uint64_t seed, size_t count, void (*const calls[])(void));

/* Runs them (of the families, only the one that WEFT_TEST_ONLY names) and then the file's own tests; what
 * main() returns. */
int run_suite(const suite *s, const struct CMUnitTest own[], size_t num_own);

#endif
