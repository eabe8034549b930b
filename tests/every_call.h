/* A call of every public function that needs weft_init(): for tests of where weft must not be called. */
#ifndef WEFT_TESTS_EVERY_CALL_H
#define WEFT_TESTS_EVERY_CALL_H

#include <weft/weft.h>

/* What the calls are given: live objects of the shape [2, 2], or what is left of them. */
typedef struct call_arguments {
    weft_mesh *mesh;
    weft_tensor *tensor, *indices, *truth; /* f32, i64 of one dimension, bool */
    const weft_operation *operation;       /* of one input */
} call_arguments;

/* One after another; `after` is told the name of each that has returned, and `argument`. */
void call_everything(const call_arguments *arguments, void (*after)(const char *function, void *argument),
                     void *argument);

/* Asserts that each function which the headers declare (paths) is among the calls, or is one of those that any
 * thread may call at any time. */
void assert_everything_is_called(int num_headers, char *const headers[]);

#endif
