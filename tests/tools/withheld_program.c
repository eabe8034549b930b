/* The program of tests/tools/test_trace.py: withheld.h, one rank in each process. */
#include <stdio.h>
#include <stdlib.h>

#include "withheld.h"

int main(void)
{
    withheld_result result;
    if (withheld_run(0, &result) != WEFT_OK || !result.right) {
        fprintf(stderr, "%s\n", weft_last_error());
        return EXIT_FAILURE;
    }
    return EXIT_SUCCESS;
}
