/* Files of figures of machines that do not exist. */
#ifndef WEFT_TESTS_MACHINE_FILE_H
#define WEFT_TESTS_MACHINE_FILE_H

enum { MACHINE_PATH_BYTES = 64 };

/* A new file, to be removed: floating-point operations, and bytes of links, per microsecond. */
void write_machine(char path[MACHINE_PATH_BYTES], double flops, double link_bytes);

#endif
