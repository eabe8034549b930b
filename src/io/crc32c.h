/* CRC-32C (Castagnoli), the checksum of iSCSI, ext4 and Btrfs. The checksum of joined byte strings follows from
 * the strings' own checksums and lengths: each process computes those of its rows, and no process reads a whole
 * tensor. */
#ifndef WEFT_SRC_IO_CRC32C_H
#define WEFT_SRC_IO_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of the bytes after those of `crc`; 0: of no bytes. */
uint32_t weft_crc32c(uint32_t crc, const void *bytes, size_t count);
/* The same without the processor's instruction. */
uint32_t weft_crc32c_by_tables(uint32_t crc, const void *bytes, size_t count);
/* The checksum of two joined strings; `count`: bytes of the second one. */
uint32_t weft_crc32c_join(uint32_t first, uint32_t second, int64_t count);

#endif
