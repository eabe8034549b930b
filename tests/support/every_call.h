/* Calls of all public functions that need weft_init(), for tests of threads, kernels and processes that
 * must not call weft. */
#ifndef WEFT_TESTS_EVERY_CALL_H
#define WEFT_TESTS_EVERY_CALL_H

#include <weft/weft.h>

#include "rows.h"

/* Arguments of the calls: live objects, or stale handles. All but `mesh` and `operation` are on the mesh. */
typedef struct call_arguments {
    weft_mesh *mesh; /* of one dimension, "name" */
    int64_t mesh_size;
    weft_tensor *tensor, *indices, *truth; /* f32 [2, 2], i64 [2] of zeros, bool [2, 2] */
    weft_tensor *first, *second, *third;   /* f32 [2, 2], of which nothing else is a part */
    weft_tensor *scalar, *line, *places;   /* f32 [], f32 [2], i64 [2, 2] of zeros */
    weft_tensor *cube, *image;             /* f32 [1, 2, 2], f32 [1, 2, 2, 2] */
    weft_tensor *pairs;                    /* c64 [2, 2] */
    weft_tensor *regular;                  /* f32 [2, 2], the unit matrix */
    const weft_operation *operation;       /* of one input */
    weft_index_list *list;                 /* of the rows of f32 [2, 2] along the mesh */
    weft_sparse *sparse;                   /* the structure of the unit matrix [2, 2] */
    weft_tensor *ghosted;   /* lies in ghosted arrays */
} call_arguments;

/* A list for the arguments: the first rank of the mesh names row 0 and the second row 1; a single one names both. Every process calls it. NULL on error. */
weft_index_list *list_for_calls(weft_mesh *mesh);
/* A structure likewise. */
weft_sparse *sparse_for_calls(weft_mesh *mesh);
/* On the hosted ranks of the mesh. */
weft_tensor *ghosted_for_calls(weft_mesh *mesh);

/* Makes all calls; `after` gets the status of each returned one, its name, and `argument`. */
void call_everything(const call_arguments *arguments,
                     void (*after)(row_place row, const char *function, void *argument), void *argument);
/* The same of the functions that are wanted. */
void call_all_wanted(const call_arguments *arguments, bool (*wanted)(const char *function),
                     void (*after)(row_place row, const char *function, void *argument), void *argument);

/* Results of the calls; `may_fail`: calls that are expected to fail. */
typedef struct call_outcomes {
    bool (*may_fail)(const char *function);
    int num_calls, num_failures;
    char failures[2048]; /* a line each */
} call_outcomes;

/* For `after`, with outcomes as its argument. */
void note_outcome(row_place row, const char *function, void *outcomes);
void assert_no_failures(const call_outcomes *outcomes);

/* Asserts that each function declared in the headers (paths) is among the calls, or may be called by any
 * thread at any time. */
void assert_everything_is_called(int num_headers, char *const headers[]);

#endif
