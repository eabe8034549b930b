#include "machine_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"

void write_machine(char path[MACHINE_PATH_BYTES], double flops, double link_bytes)
{
    strcpy(path, "/tmp/weft-machine-XXXXXX");
    int descriptor = mkstemp(path);
    assert_true(descriptor >= 0);
    FILE *file = fdopen(descriptor, "w");
    assert_non_null(file);
    fprintf(file, "weft-machine 2\ntask_us 2.000\ncopy_bytes_per_us %.3f\nproduct_flops_per_us %.3f\n", flops / 4, flops);
    fprintf(file, "near_latency_us 5.000\nnear_message_us 2.000\nnear_bytes_per_us %.3f\n", link_bytes);
    fprintf(file, "far_latency_us 5.000\nfar_message_us 2.000\nfar_bytes_per_us %.3f\nend\n", link_bytes);
    assert_int_equal(fclose(file), 0);
}
