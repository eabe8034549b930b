#include "text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int32_t symbol_of(int byte)
{
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

/* Appends one symbol; capacity doubles. */
static bool append(text *t, int64_t *capacity, int32_t symbol)
{
    if (t->count == *capacity) {
        int64_t larger = *capacity > 0 ? 2 * *capacity : 1 << 16;
        int32_t *moved = realloc(t->symbols, (size_t)larger * sizeof(int32_t));
        if (moved == NULL) {
            return false;
        }
        t->symbols = moved;
        *capacity = larger;
    }
    t->symbols[t->count++] = symbol;
    return true;
}

/* NULL, or an error message. */
static const char *read_symbols(text *t, const char *path)
{
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return strerror(errno);
    }
    const char *trouble = NULL;
    int64_t capacity = 0;
    int byte = 0;
    while (trouble == NULL && (byte = getc(file)) != EOF) {
        if (!append(t, &capacity, symbol_of(byte))) {
            trouble = "no memory for it";
        }
    }
    if (trouble == NULL && ferror(file)) {
        trouble = "it cannot be read";
    }
    fclose(file);
    return trouble;
}

bool text_load(text *t, const char *path, int64_t least, bool speak)
{
    *t = (text){ NULL, 0 };
    const char *trouble = read_symbols(t, path);
    if (trouble == NULL && t->count < least) {
        trouble = "it is too short to learn from";
    }
    if (trouble != NULL) {
        if (speak) {
            fprintf(stderr, "char_lm: text %s: %s (--text FILE takes another)\n", path, trouble);
        }
        text_free(t);
        return false;
    }
    return true;
}

void text_free(text *t)
{
    free(t->symbols);
    *t = (text){ NULL, 0 };
}

/* Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t dice_next(dice *d)
{
    uint64_t z = d->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
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
