/* Parts of every_call.c. */
#ifndef WEFT_TESTS_EVERY_CALL_TRY_H
#define WEFT_TESTS_EVERY_CALL_TRY_H

#include <stdbool.h>

#include "every_call.h"
#include "rows.h"

/* Calls `function` where it is wanted, and tells `after`; for functions with the parameters of
 * try_operations(). */
#define TRY(function, ...)                                                                                   \
    (wanted == NULL || wanted(#function)                                                                     \
         ? ((void)function(__VA_ARGS__), after((row_place)THIS_ROW, #function, argument))                    \
         : (void)0)

/* Functions of elementwise.h, reductions.h, products.h, shapes.h, indexing.h, nn.h and optimizers.h. */
void try_operations(const call_arguments *arguments, bool (*wanted)(const char *function),
                    void (*after)(row_place row, const char *function, void *argument), void *argument);

#endif
