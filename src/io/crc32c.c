#include "io/crc32c.h"

#include <string.h>

/* The polynomial x^32 + x^28 + ... + 1, bit-reversed: bit 31 is x^0. */
static const uint32_t POLYNOMIAL = UINT32_C(0x82f63b78);
static const uint32_t ONE = UINT32_C(0x80000000), X_TO_8 = UINT32_C(0x00800000);

/* a * b modulo the polynomial. */
static uint32_t multiply(uint32_t a, uint32_t b)
{
    uint32_t product = 0;
    for (uint32_t bit = ONE; bit != 0; bit >>= 1) {
        product ^= (a & bit) != 0 ? b : 0;
        b = b >> 1 ^ ((b & 1) != 0 ? POLYNOMIAL : 0);
    }
    return product;
}

uint32_t weft_crc32c_join(uint32_t first, uint32_t second, int64_t count)
{
    uint32_t power = ONE; /* x^(8 count): what `count` more bytes do to the first checksum */
    for (uint32_t square = X_TO_8; count > 0; count >>= 1) {
        power = (count & 1) != 0 ? multiply(power, square) : power;
        square = multiply(square, square);
    }
    return multiply(power, first) ^ second;
}

/* ---- bytes: eight at a time ---------------------------------------------------------------------------- */

/* table[k][byte]: the remainder of the byte followed by k zero bytes. */
typedef struct crc_tables {
    uint32_t table[8][256];
} crc_tables;

static void make_tables(crc_tables *all)
{
    for (uint32_t byte = 0; byte < 256; byte++) {
        all->table[0][byte] = multiply(byte, X_TO_8);
    }
    for (int k = 1; k < 8; k++) {
        for (uint32_t byte = 0; byte < 256; byte++) {
            uint32_t shorter = all->table[k - 1][byte];
            all->table[k][byte] = shorter >> 8 ^ all->table[0][shorter & 0xff];
        }
    }
}

static uint32_t by_tables(uint32_t crc, const unsigned char *bytes, size_t count)
{
    crc_tables tables;
    make_tables(&tables);
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word = 0;
        for (int i = 7; i >= 0; i--) {
            word = word << 8 | bytes[i];
        }
        word ^= crc;
        crc = 0;
        for (int i = 0; i < 8; i++) {
            crc ^= tables.table[7 - i][word >> 8 * i & 0xff];
        }
    }
    for (; count > 0; count--, bytes++) {
        crc = crc >> 8 ^ tables.table[0][(crc ^ *bytes) & 0xff];
    }
    return crc;
}

#if defined(__x86_64__) && defined(__GNUC__)
/* One instruction for eight bytes. */
__attribute__((target("sse4.2"))) static uint32_t by_instruction(uint32_t crc, const unsigned char *bytes, size_t count)
{
    uint64_t wide = crc;
    for (; count >= 8; count -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    for (; count > 0; count--, bytes++) {
        wide = __builtin_ia32_crc32qi((uint32_t)wide, *bytes);
    }
    return (uint32_t)wide;
}

static int has_instruction(void)
{
    return __builtin_cpu_supports("sse4.2");
}
#else
static uint32_t by_instruction(uint32_t crc, const unsigned char *bytes, size_t count)
{
    return by_tables(crc, bytes, count);
}

static int has_instruction(void)
{
    return 0;
}
#endif

uint32_t weft_crc32c_by_tables(uint32_t crc, const void *bytes, size_t count)
{
    return ~by_tables(~crc, bytes, count);
}

uint32_t weft_crc32c(uint32_t crc, const void *bytes, size_t count)
{
    return ~(has_instruction() ? by_instruction : by_tables)(~crc, bytes, count);
}
