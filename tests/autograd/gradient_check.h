/* Gradients of calls against central differences: what a program calls is recorded, carried out again on inputs that
 * differ in one element, and compared with what weft_call_gradients() says. */
#ifndef WEFT_TESTS_GRADIENT_CHECK_H
#define WEFT_TESTS_GRADIENT_CHECK_H

#include <weft/weft.h>

#include "dispatch/dispatch.h"

typedef enum input_layout { REPLICATED, FIRST_SHARDED, LAST_SHARDED, PARTIAL_SUM, NUM_INPUT_LAYOUTS } input_layout;

/* A new tensor of these values on the ranks of a mesh of one dimension; one without dimensions is replicated, and one that
 * is not floating is never Partial. */
weft_tensor *tensor_of_values(weft_mesh *mesh, input_layout layout, weft_dtype dtype, int ndim, const int64_t shape[],
                              const double values[]);

/* From now on calls of the program are recorded, until gradient_check_recorded(). */
void gradient_check_begin(weft_mesh *mesh, input_layout layout);
/* Checks the calls that were recorded, and, once for each operation, those that their gradients are made of. Returns how
 * many calls were checked; a difference fails the test, with the name of the call. */
int gradient_check_recorded(void);

/* How many calls of the operation were checked since the program began. */
int gradient_checks_of(const weft_operation *operation);

#endif
