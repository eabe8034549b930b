/* docs/training.md: its code stands in programs that are built, and the output that it shows is the tutorial's.
 *
 * Arguments: the program tutorial, docs/training.md, tutorial.c, transformer_lm.c. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "example_runs.h"

static const char *tutorial;
static char page[1 << 16], sources[2][1 << 16];

/* The text after the next line `fence`, to the next line "```", which is cut off. NULL: there is none. */
static char *next_block(char **rest, const char *fence)
{
    char *begin = strstr(*rest, fence);
    if (begin == NULL) {
        return NULL;
    }
    begin += strlen(fence);
    char *end = strstr(begin, "```\n");
    assert_non_null(end);
    *end = '\0';
    *rest = end + 1;
    return begin;
}

static void code_of_the_page_stands_in_programs(void **state)
{
    (void)state;
    static char copy[sizeof(page)];
    strcpy(copy, page);
    char *rest = copy;
    int blocks = 0;
    for (char *block = NULL; (block = next_block(&rest, "\n```c\n")) != NULL; blocks++) {
        if (strstr(sources[0], block) == NULL && strstr(sources[1], block) == NULL) {
            fail_msg("neither program has:\n%s", block);
        }
    }
    assert_true(blocks >= 10);
}

static void output_of_the_page_is_the_programs(void **state)
{
    (void)state;
    static char alone[1 << 16], fenced[1 << 16];
    assert_int_equal(example_run(0, tutorial, ""), 0);
    strcpy(alone, example_output("out"));
    assert_non_null(strstr(alone, "checkpoint: difference"));
    snprintf(fenced, sizeof(fenced), "\n```\n%.4096s```\n", alone);
    if (strstr(page, fenced) == NULL) {
        fail_msg("the page does not show:\n%s", alone);
    }
#ifdef WEFT_HAVE_MPI
    for (int processes = 2; processes <= 4; processes += 2) {
        assert_int_equal(example_run(processes, tutorial, ""), 0);
        assert_string_equal(example_output("out"), alone);
    }
#endif
}

int main(int argc, char *argv[])
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s TUTORIAL training.md tutorial.c transformer_lm.c\n", argv[0]);
        return 2;
    }
    tutorial = argv[1];
    example_file(argv[2], page, sizeof(page));
    example_file(argv[3], sources[0], sizeof(sources[0]));
    example_file(argv[4], sources[1], sizeof(sources[1]));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_of_the_page_stands_in_programs),
        cmocka_unit_test(output_of_the_page_is_the_programs),
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
