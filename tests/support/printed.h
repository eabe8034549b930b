/* Texts of functions that print. */
#ifndef WEFT_TESTS_PRINTED_H
#define WEFT_TESTS_PRINTED_H

#include <stdio.h>

/* Makes `call`, which prints to `file`, write into an array of characters. */
#define PRINT_INTO(text_, call_)                                                                             \
    do {                                                                                                     \
        (text_)[0] = '\0'; /* what is read if nothing is printed */                                         \
        FILE *file = fmemopen(text_, sizeof(text_), "w");                                                    \
        assert_non_null(file);                                                                               \
        assert_int_equal(call_, WEFT_OK);                                                                    \
        assert_int_equal(fclose(file), 0);                                                                   \
    } while (0)

#endif
