/* The text builder of the library: a text that is written piece by piece, into a buffer of the caller's or into
 * memory that grows. It always ends with a 0. PURE. */
#ifndef WEFT_SRC_BASE_TEXT_H
#define WEFT_SRC_BASE_TEXT_H

#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"

typedef struct weft_text {
    char *characters;
    size_t size;   /* of the buffer */
    size_t length; /* of all that was added, as far as it fits or not */
    bool grows;
    bool failed; /* there was no memory: `characters` is what came before */
} weft_text;

/* In a buffer: what does not fit is left out. size 0: nothing is written, and length counts. */
weft_text weft_text_in(char *buffer, size_t size);
/* In memory of its own, which weft_text_free() frees. */
weft_text weft_text_growing(void);
void weft_text_free(weft_text *text);

void weft_text_add(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_list(weft_text *text, const char *format, va_list arguments);
/* Numbers with `between` between them: "2x2", "5, 3". */
void weft_text_add_sizes(weft_text *text, int count, const int64_t sizes[], const char *between);

/* What functions that print to a file write, for a buffer. */
typedef struct weft_text_file {
    FILE *file;
    char *characters;
    size_t length;
} weft_text_file;

/* False: no memory. */
bool weft_text_file_open(weft_text_file *file);
/* Copies as much as fits into the buffer, with a 0 behind it, and frees the file; *length, where not NULL, gets the
 * length of the whole. False, and nothing is written: no memory. */
bool weft_text_file_close(weft_text_file *file, char *buffer, size_t size, size_t *length);

#endif
