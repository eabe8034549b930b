#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t text_symbol(const text *t, int64_t position)
{
    int byte = t->bytes[position];
    if (byte == '\n') {
        return 0;
    }
    bool printable = byte >= ' ' && byte <= '~';
    return printable ? byte - ' ' + 1 : 1;
}

char text_character(int64_t symbol)
{
    return symbol == 0 ? '\n' : (char)(' ' + symbol - 1);
}

char text_byte(int64_t byte)
{
    return (byte < ' ' && byte != '\n') || byte == 127 ? '?' : (char)byte;
}

/* Appends one byte; capacity doubles. */
static bool append(text *t, int64_t *capacity, int byte)
{
    if (t->count == *capacity) {
        int64_t larger = *capacity > 0 ? 2 * *capacity : 1 << 16;
        unsigned char *moved = realloc(t->bytes, (size_t)larger);
        if (moved == NULL) {
            return false;
        }
        t->bytes = moved;
        *capacity = larger;
    }
    t->bytes[t->count++] = (unsigned char)byte;
    return true;
}

/* NULL, or an error message. */
static const char *read_bytes(text *t, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return strerror(errno);
    }
    const char *trouble = NULL;
    int64_t capacity = 0;
    int byte = 0;
    while (trouble == NULL && (byte = getc(file)) != EOF) {
        if (!append(t, &capacity, byte)) {
            trouble = "no memory for it";
        }
    }
    if (trouble == NULL && ferror(file)) {
        trouble = "it cannot be read";
    }
    fclose(file);
    return trouble;
}

bool text_load(text *t, const char *path, int64_t min, const char *program)
{
    *t = (text){ NULL, 0 };
    const char *trouble = read_bytes(t, path);
    if (trouble == NULL && t->count < min) {
        trouble = "it is too short to learn from";
    }
    if (trouble != NULL) {
        if (program != NULL) {
            fprintf(stderr, "%s: text %s: %s (--text FILE takes another)\n", program, path, trouble);
        }
        text_free(t);
        return false;
    }
    return true;
}

void text_free(text *t)
{
    free(t->bytes);
    *t = (text){ NULL, 0 };
}

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
uint64_t splitmix64(uint64_t x)
{
    uint64_t z = x + UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

static uint64_t dice_next(dice *d)
{
    uint64_t number = splitmix64(d->state);
    d->state += UINT64_C(0x9e3779b97f4a7c15);
    return number;
}

int64_t dice_below(dice *d, int64_t sides)
{
    /* The remainder favours small numbers by a negligible sides / 2^64. */
    return (int64_t)(dice_next(d) % (uint64_t)sides);
}

double dice_fraction(dice *d)
{
    return (double)(dice_next(d) >> 11) * 0x1p-53;
}

int64_t dice_softmax(dice *d, int64_t n, const double logits[], double temperature)
{
    double highest = logits[0], total = 0;
    for (int64_t i = 1; i < n; i++) {
        highest = fmax(highest, logits[i]);
    }
    for (int64_t i = 0; i < n; i++) {
        total += exp((logits[i] - highest) / temperature);
    }
    double left = dice_fraction(d) * total;
    for (int64_t i = 0; i < n; i++) {
        left -= exp((logits[i] - highest) / temperature);
        if (left < 0) {
            return i;
        }
    }
    return n - 1;
}
