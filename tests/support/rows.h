/* Tables of test cases: a failing test names file and line of the row. */
#ifndef WEFT_TESTS_ROWS_H
#define WEFT_TESTS_ROWS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Place of a row: its first field, initialised by THIS_ROW. */
typedef struct row_place {
    const char *file;
    int line;
} row_place;
#define THIS_ROW                                                                                             \
    {                                                                                                        \
        __FILE__, __LINE__                                                                                   \
    }

/* The row that a test of this file is in, and the test's function; NULL: none. */
static row_place current_row;
static const char *current_test;

/* Behind the last row. A test that fails never comes to that. */
static inline void leave_rows(void)
{
    current_test = NULL;
}

static inline void tell_row(void)
{
    if (current_test != NULL) {
        fprintf(stderr, "%s() failed in the row at %s:%d\n", current_test, current_row.file,
                current_row.line);
    }
}

/* For each row, before anything is asserted; `test`: __func__. */
static inline void enter_row(row_place row, const char *test)
{
    static int registered;
    if (!registered) {
        registered = atexit(tell_row) == 0;
    }
    if (current_test != NULL && strcmp(current_test, test) != 0) {
        tell_row();
    }
    current_row = row;
    current_test = test;
}

#endif
