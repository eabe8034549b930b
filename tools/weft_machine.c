/* weft-machine: what weft takes this machine for. Under mpirun, with one process on each of some machines or
 * several on one, it measures the links as well. WEFT_CALIBRATE=again measures all anew. */
#include <stdio.h>

#include <weft/weft.h>

int main(void)
{
    if (weft_init(NULL) == WEFT_OK) {
        if (weft_process_index() == 0) {
            weft_print_machine(stdout);
        }
        weft_finalize();
    }
    if (weft_last_status() != WEFT_OK) {
        fprintf(stderr, "weft-machine: %s\n", weft_last_error());
        return 1;
    }
    return 0;
}
