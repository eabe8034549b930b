/* The text builder: appends to a buffer of the caller's or to growing memory. Always 0-terminated. PURE. */
#ifndef WEFT_SRC_BASE_TEXT_H
#define WEFT_SRC_BASE_TEXT_H

#include <stdarg.h>
#include <stdio.h>

#include "base/base.h"

typedef struct weft_text {
    char *characters;
    size_t size;   /* of the buffer */
    size_t length; /* of the whole text, also if truncated */
    bool grows;
    bool failed; /* no memory: `characters` is the text before */
} weft_text;

/* Writes to a buffer and truncates. size 0: writes nothing, and counts the length. */
weft_text weft_text_in(char *buffer, size_t size);
/* Writes to memory of its own; to be freed with weft_text_free(). */
weft_text weft_text_growing(void);
void weft_text_free(weft_text *text);

void weft_text_add(weft_text *text, const char *format, ...) WEFT_PRINTF(2, 3);
void weft_text_add_list(weft_text *text, const char *format, va_list arguments);
/* Numbers separated by `between`: "2x2", "5, 3". */
void weft_text_add_sizes(weft_text *text, int count, const int64_t sizes[], const char *between);

/* A FILE whose text goes to a buffer, for functions that print to files. */
typedef struct weft_text_file {
    FILE *file;
    char *characters;
    size_t length;
} weft_text_file;

/* False: no memory. */
bool weft_text_file_open(weft_text_file *file);
/* Copies the text into the buffer, truncated and 0-terminated, and closes the file; *length (may be NULL)
 * gets the whole length. False: no memory, nothing is written. */
bool weft_text_file_close(weft_text_file *file, char *buffer, size_t size, size_t *length);

#endif
