/* Shared by the tests of errors: tensors and meshes as arguments, and rows. A row is a call with bad
 * input, then the expected status, and a message that names the function and the argument; nothing may be
 * submitted. */
#ifndef WEFT_TESTS_ERRORS_SUPPORT_H
#define WEFT_TESTS_ERRORS_SUPPORT_H

#include "support.h"

enum { RANKS = 4 };

/* ---- what rows call with ------------------------------------------------------------------------------- */

/* 2 x 2, (dp, tp); the same ranks in a line; one of an earlier life of the library. */
extern weft_mesh *mesh, *other_mesh, *stale_mesh;
/* [4, 5] f32: by rows, by columns, on other_mesh, sums, maxima, released, of an earlier life. */
extern weft_tensor *matrix, *cut, *on_other, *partial, *largest, *dead, *stale_tensor;
/* [5, 5], [2, 6, 5, 5], [4, 6, 3, 3], [] and [0, 5], f32. */
extern weft_tensor *square, *image, *filter, *scalar, *empty;
/* [4, 5] f64, [4] i64, [4, 5] i64, [4, 5] bool. */
extern weft_tensor *whole, *indices, *places, *booleans;
/* Registered by the program: rule "ab->ac", kernel no_kernel. */
extern const weft_operation *custom;
void no_kernel(const weft_kernel_call *call);

extern const int64_t shape_45[2], shape_55[2], negative[2], huge[2], huge_but_empty[3], nine[9];
extern const weft_placement rows[2], columns[2], with_partial[2];
/* Placements that none are. */
extern const weft_placement bad_dim[2], bad_negative_dim[2], bad_kind[2], bad_op[2];
extern double memory[64];
#define NOT_A_MESH ((weft_mesh *)memory)
#define NOT_A_TENSOR ((weft_tensor *)memory)

/* Starts the library, and makes the tensors. */
void start(void);
void make_fixtures(void);
/* Setup of a group of tests. */
int setup(void **state);
int teardown(void **state);
/* A sum of ones over everything, right on all ranks. */
void assert_library_works(void);

/* ---- rows ---------------------------------------------------------------------------------------------- */

void row_begin(const char *file, int line, const char *call);
/* `right`: the call returned the expected value. */
void row_end(bool right, weft_status status, const char *function, const char *argument);
/* For a call that returns its status. */
void row_end_status(weft_status returned, weft_status status, const char *function, const char *argument);
/* Fails the test if a row was wrong, each of which has been printed; and the library still works. */
void rows_end(void);

/* The call returns the status; NULL; zero; anything. */
#define REFUSES(call, status, function, argument)                                                            \
    (row_begin(__FILE__, __LINE__, #call), row_end_status((call), WEFT_ERR_##status, function, argument))
#define GIVES_NULL(call, status, function, argument)                                                         \
    (row_begin(__FILE__, __LINE__, #call), row_end((call) == NULL, WEFT_ERR_##status, function, argument))
#define GIVES_ZERO(call, status, function, argument)                                                         \
    (row_begin(__FILE__, __LINE__, #call), row_end((call) == 0, WEFT_ERR_##status, function, argument))
#define SETS_ERROR(call, status, function, argument)                                                         \
    (row_begin(__FILE__, __LINE__, #call), (void)(call), row_end(true, WEFT_ERR_##status, function, argument))

#endif
