/* Words of saved graphs, read from a line. Functions that return false, or NULL, have kept a reason. */
#ifndef WEFT_SRC_GRAPH_SAVE_SAVED_READER_H
#define WEFT_SRC_GRAPH_SAVE_SAVED_READER_H

#include "graph/save/saved.h"

enum { WEFT_MAX_SAVED_NUMBERS = 1 << 20 }; /* of a list; and the largest of small ones */

typedef struct weft_reader {
    weft_saved_graph *saved;
    char *text;     /* all of it */
    const char *at; /* in the line, which ends with 0 */
    int line;
    bool failed;
    char why[200];
} weft_reader;

/* Keeps the first reason. False. */
bool weft_reader_fail(weft_reader *r, const char *format, ...) WEFT_PRINTF(2, 3);
/* Zeros, and one byte more, that belong to the graph. */
void *weft_reader_keep(weft_reader *r, size_t bytes);

void weft_reader_skip(weft_reader *r);
/* Whether the line goes on with these characters, after blanks; takes them. */
bool weft_reader_take(weft_reader *r, const char *word);
bool weft_reader_expect(weft_reader *r, const char *word);
bool weft_reader_expect_end(weft_reader *r);
bool weft_reader_integer(weft_reader *r, int64_t least, int64_t most, int64_t *number);
bool weft_reader_int(weft_reader *r, int least, int most, int *number);
bool weft_reader_scalar(weft_reader *r, double *number);
/* Letters, digits and underscores. */
size_t weft_word_length(const char *at);
char *weft_reader_word(weft_reader *r, size_t length);
/* A text as save.c quotes it. */
char *weft_reader_quoted(weft_reader *r);

/* The line of a mesh, after its first word. */
void weft_reader_mesh(weft_reader *r);
bool weft_reader_layout(weft_reader *r, weft_saved_layout *layout);

#endif
