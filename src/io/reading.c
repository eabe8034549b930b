#include "io/reading.h"

#include <stdlib.h>
#include <unistd.h>

#include "io/crc32c.h"
#include "base/disk.h"

enum { LENGTH_BYTES = 8 };

/* Of a file that is damaged or none: every process sees the same. */
static bool refuse(weft_outcome *outcome, const char *path, const char *why)
{
    weft_outcome_fail(outcome, WEFT_ERR_IO, "%.120s: %s", path, why);
    return false;
}

static bool parse(const char *path, int file, int64_t file_bytes, weft_file_header *header, uint64_t *digest,
                  weft_outcome *outcome)
{
    unsigned char length[LENGTH_BYTES];
    int64_t size = 0;
    char why[200];
    if (file_bytes < LENGTH_BYTES) {
        return refuse(outcome, path, "the file has less than 8 bytes: this is no safetensors file");
    }
    const char *failed = weft_disk_read(file, length, LENGTH_BYTES, 0);
    if (failed == NULL && !weft_file_header_size(length, file_bytes, &size, why, sizeof(why))) {
        return refuse(outcome, path, why);
    }
    int64_t count = LENGTH_BYTES + size;
    char *bytes = failed == NULL ? malloc((size_t)count) : NULL;
    if (failed == NULL && bytes == NULL) {
        return refuse(outcome, path, "no memory for the header");
    }
    failed = failed == NULL ? weft_disk_read(file, bytes, count, 0) : failed;
    bool parsed = false;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    } else {
        *digest = (uint64_t)weft_crc32c(0, bytes, (size_t)count) << 32 ^ (uint64_t)file_bytes;
        parsed = weft_file_header_parse(header, bytes, count, file_bytes, why, sizeof(why)) ||
                 refuse(outcome, path, why);
    }
    free(bytes);
    return parsed;
}

bool weft_read_header(const char *path, int *file, weft_file_header *header, uint64_t *digest, weft_outcome *outcome)
{
    int64_t file_bytes = 0;
    const char *failed = weft_disk_open(path, file, &file_bytes);
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
        return false;
    }
    if (!parse(path, *file, file_bytes, header, digest, outcome)) {
        close(*file);
        return false;
    }
    return true;
}
