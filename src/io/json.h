/* The JSON of safetensors headers: objects, arrays, strings and non-negative integers. A scanner, without a tree
 * and without recursion. Values of any other kind (true, 1.5, -1, deeper nesting) can only be skipped, which checks that
 * they are JSON. */
#ifndef WEFT_SRC_IO_JSON_H
#define WEFT_SRC_IO_JSON_H

#include "base/text.h"

/* A scan of `length` characters. The first error is kept, and nothing is scanned after it. */
typedef struct weft_json {
    const char *text;
    const char *of; /* what is scanned, for messages; NULL: the header */
    size_t length, at;
    bool failed, no_memory; /* no_memory: why it failed */
    char why[160]; /* the error and its position */
} weft_json;

/* Keeps an error at the present position; returns false. */
bool weft_json_fail(weft_json *json, const char *format, ...) WEFT_PRINTF(2, 3);
/* The same where memory for `what` is missing. */
bool weft_json_fail_memory(weft_json *json, const char *what);
/* The next character after spaces is this one, which is skipped. */
bool weft_json_take(weft_json *json, char character);
/* Else false and an error. */
bool weft_json_expect(weft_json *json, char character);
/* The same for a word: null, true. */
bool weft_json_take_word(weft_json *json, const char *word);
/* Whether a string follows. */
bool weft_json_is_string(weft_json *json);
/* A string as UTF-8 without escapes, to be freed; NULL with an error: none, not UTF-8, a control character,
 * U+0000, or no memory. */
char *weft_json_string(weft_json *json);
/* Skips a value of any kind, however deep. */
bool weft_json_skip(weft_json *json);
/* An integer 0 .. INT64_MAX. */
bool weft_json_integer(weft_json *json, int64_t *value);
/* Nothing but spaces is left. */
bool weft_json_end(weft_json *json);

/* Whether a text is UTF-8 (without surrogates and overlong forms). */
bool weft_is_utf8(const char *text);
/* Adds a text in quotes, with escapes. */
void weft_json_add_string(weft_text *text, const char *string);

#endif
