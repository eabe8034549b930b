/* Text as numbers, and random numbers that are equal on every process. */
#ifndef CHAR_LM_TEXT_H
#define CHAR_LM_TEXT_H

#include <stdbool.h>
#include <stdint.h>

/* Symbol 0 is the end of a line, 1 .. 95 are the printable ASCII characters from the space on. */
enum { NUM_SYMBOLS = 96 };

typedef struct text {
    int32_t *symbols;
    int64_t count;
} text;

/* Reads a whole file; bytes that are neither printable ASCII nor newlines become spaces. False: cannot be
 * read, or fewer than `least` characters; with `speak` after a message on standard error. */
bool text_load(text *t, const char *path, int64_t least, bool speak);
void text_free(text *t);

/* The character of a symbol. */
char text_character(int64_t symbol);

/* A generator of the program's own (SplitMix64): processes with the same seed draw the same numbers. */
typedef struct dice {
    uint64_t state;
} dice;

/* Uniform on 0 .. sides - 1. */
int64_t dice_below(dice *d, int64_t sides);
/* Uniform on [0, 1). */
double dice_fraction(dice *d);
/* One of n numbers, drawn from softmax(logits / temperature). */
int64_t dice_softmax(dice *d, int64_t n, const double logits[], double temperature);

#endif
