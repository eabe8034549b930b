/* How libhdf5 reaches a file: by reads and writes of base/disk.h at a descriptor that weft has opened. */
#ifndef WEFT_SRC_IO_HDF5_DRIVER_H
#define WEFT_SRC_IO_HDF5_DRIVER_H

#include <hdf5.h>

#include <stdint.h>

/* The file and the first step that failed. libhdf5 is told that all steps have succeeded: what H5Fclose() leaves behind
 * when it fails makes the program crash when it exits. After a failure the file is worth nothing. */
typedef struct weft_hdf5_disk {
    int file;
    int64_t size;
    const char *failed; /* a step of base/disk.h; NULL: none */
    int reason;         /* its errno */
    hid_t driver;       /* > 0: registered */
} weft_hdf5_disk;

/* An HDF5 file on `disk`, which stays open; the path is for messages. `flags`: H5F_ACC_TRUNC (the file is empty),
 * H5F_ACC_RDWR or H5F_ACC_RDONLY. To be closed with H5Fclose(), and weft_hdf5_forget() after that. Negative with libhdf5's
 * stack of errors. */
hid_t weft_hdf5_open(const char *path, unsigned flags, weft_hdf5_disk *disk);
/* The driver is not needed any more. Not before the file is closed: H5Fclose() would use it after it has freed it. */
void weft_hdf5_forget(weft_hdf5_disk *disk);

#endif
