/* Text as numbers, and random numbers that are equal on every process. */
#ifndef EXAMPLES_TEXT_H
#define EXAMPLES_TEXT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct text {
    unsigned char *bytes;
    int64_t count;
} text;

/* Reads a whole file. False: cannot be read, or fewer than `min` bytes; after a message on standard error unless
 * `program` is NULL. */
bool text_load(text *t, const char *path, int64_t min, const char *program);
void text_free(text *t);

/* Symbol 0 is the end of a line, 1 .. 95 are the printable ASCII characters from the space on; all other bytes count as
 * spaces. */
enum { NUM_SYMBOLS = 96 };
int32_t text_symbol(const text *t, int64_t position);
/* The character of a symbol. */
char text_character(int64_t symbol);
/* A byte as a character for terminals: control characters are question marks. */
char text_byte(int64_t byte);

/* A random number of 64 bits for each x. */
uint64_t splitmix64(uint64_t x);

/* A generator of the program's own: processes with the same seed draw the same numbers. */
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
