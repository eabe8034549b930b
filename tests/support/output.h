/* What programs print. */
#ifndef WEFT_TESTS_OUTPUT_H
#define WEFT_TESTS_OUTPUT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/* What a program prints with these arguments, as a shell takes them; `errors`: its messages, instead of its output.
 * *status: -1 where it has not returned one. To be freed. */
char *output_of(const char *program, const char *arguments, bool errors, int *status);

#endif
