#include "io/hdf5_driver.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if __has_include(<H5FDdevelop.h>) /* 1.14 and later */
#include <H5FDdevelop.h>
#endif

#include "base/disk.h"

/* Begins as libhdf5 has it. */
typedef struct open_file {
    H5FD_t common;
    weft_hdf5_disk *disk;
    haddr_t end_allocated, end_written;
} open_file;

/* Keeps the first failure. */
static void keep(weft_hdf5_disk *disk, const char *failed)
{
    if (failed != NULL && disk->failed == NULL) {
        disk->failed = failed;
        disk->reason = errno;
    }
}

static H5FD_t *open_disk(const char *name, unsigned flags, hid_t properties, haddr_t maximum)
{
    (void)name;
    (void)maximum;
    weft_hdf5_disk *const *disk = H5Pget_driver_info(properties);
    open_file *file = disk == NULL ? NULL : calloc(1, sizeof(*file));
    if (file != NULL) {
        file->disk = *disk;
        file->end_written = (flags & H5F_ACC_TRUNC) != 0 ? 0 : (haddr_t)file->disk->size;
    }
    return (H5FD_t *)file;
}

static herr_t close_disk(H5FD_t *file)
{
    free(file);
    return 0;
}

/* As for libhdf5's own driver of files: small pieces are collected. */
static herr_t query(const H5FD_t *file, unsigned long *flags)
{
    (void)file;
    *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
             H5FD_FEAT_AGGREGATE_SMALLDATA;
    return 0;
}

static haddr_t end_allocated(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const open_file *)file)->end_allocated;
}

static herr_t set_end_allocated(H5FD_t *file, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((open_file *)file)->end_allocated = end;
    return 0;
}

static haddr_t end_written(const H5FD_t *file, H5FD_mem_t type)
{
    (void)type;
    return ((const open_file *)file)->end_written;
}

/* Reads zeros after the end, as libhdf5 expects, and after a failure. */
static herr_t read_disk(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t at, size_t size, void *bytes)
{
    (void)type;
    (void)properties;
    open_file *f = (open_file *)file;
    size_t there = at >= f->end_written ? 0 : f->end_written - at < size ? (size_t)(f->end_written - at) : size;
    memset(bytes, 0, size);
    if (f->disk->failed == NULL) {
        keep(f->disk, weft_disk_read(f->disk->file, bytes, (int64_t)there, (int64_t)at));
    }
    return 0;
}

static herr_t write_disk(H5FD_t *file, H5FD_mem_t type, hid_t properties, haddr_t at, size_t size, const void *bytes)
{
    (void)type;
    (void)properties;
    open_file *f = (open_file *)file;
    if (f->disk->failed == NULL) {
        keep(f->disk, weft_disk_write(f->disk->file, bytes, (int64_t)size, (int64_t)at));
    }
    f->end_written = at + size > f->end_written ? at + size : f->end_written;
    return 0;
}

static herr_t truncate_disk(H5FD_t *file, hid_t properties, hbool_t closing)
{
    (void)properties;
    (void)closing;
    open_file *f = (open_file *)file;
    if (f->end_written != f->end_allocated && f->disk->failed == NULL) {
        keep(f->disk, ftruncate(f->disk->file, (off_t)f->end_allocated) != 0 ? "truncate" : NULL);
    }
    f->end_written = f->end_allocated;
    return 0;
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = 777, /* any beyond 511 that no driver of the same program has */
#endif
    .name = "weft",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_WEAK,
    .fapl_size = sizeof(weft_hdf5_disk *),
    .open = open_disk,
    .close = close_disk,
    .query = query,
    .get_eoa = end_allocated,
    .set_eoa = set_end_allocated,
    .get_eof = end_written,
    .read = read_disk,
    .write = write_disk,
    .truncate = truncate_disk,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

hid_t weft_hdf5_open(const char *path, unsigned flags, weft_hdf5_disk *disk)
{
    hid_t properties = H5Pcreate(H5P_FILE_ACCESS), file = -1;
    disk->driver = H5FDregister(&driver);
    if (properties >= 0 && disk->driver > 0 && H5Pset_driver(properties, disk->driver, &disk) >= 0) {
        file = flags == H5F_ACC_TRUNC ? H5Fcreate(path, flags, H5P_DEFAULT, properties)
                                      : H5Fopen(path, flags, properties);
    }
    /* The next call would clear the stack of errors of this one. */
    hid_t errors = file < 0 ? H5Eget_current_stack() : -1;
    if (properties >= 0) {
        H5Pclose(properties);
    }
    if (errors >= 0) {
        H5Eset_current_stack(errors);
    }
    return file;
}

void weft_hdf5_forget(weft_hdf5_disk *disk)
{
    if (disk->driver > 0) {
        H5FDunregister(disk->driver);
    }
    disk->driver = 0;
}
