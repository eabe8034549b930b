/* The process that stands for the devices: forked before main(), it has device memory mapped where this process has it,
 * and runs kernels. */
#ifndef WEFT_TESTS_DEVICE_PROCESS_H
#define WEFT_TESTS_DEVICE_PROCESS_H

#include "stand_in.h"

namespace device_process
{

/* Device memory of a device: `base`, its addresses on the device, and `view`, where the stand-in itself, and it alone,
 * reads and writes it. */
struct memory {
    char *base, *view;
    size_t size;
};

int count_devices();
const memory &memory_of(int device);
/* Runs a kernel and waits for its end. False: the devices' process has died. Called by any thread. */
bool run(stand_in_runner runner, void (*kernel)(void), const void *argument, size_t size, unsigned blocks,
         unsigned threads, stand_in_order order);

}

#endif
