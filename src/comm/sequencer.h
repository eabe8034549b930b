/* The order in which groups begin (group.c): by their numbers, whatever becomes ready first.
 *
 * A stream carries out its groups one after the other, so two processes whose groups begin in different orders would wait
 * for each other for ever. Groups are numbered as they are submitted: by call and stage, which all processes submit alike.
 * A group waits only for work that was submitted before it, so following the waits never leads back. Groups also wait for
 * earlier sends outside of groups (next_group()). */
#ifndef WEFT_SRC_COMM_SEQUENCER_H
#define WEFT_SRC_COMM_SEQUENCER_H

#include "base/base.h"

/* The first member of what is put in order. */
typedef struct weft_sequenced {
    struct weft_sequenced *next;
    int missing; /* before it may begin */
} weft_sequenced;

/* Begins with zeros. */
typedef struct weft_sequencer {
    weft_sequenced *first, *last;
} weft_sequencer;

void weft_sequencer_add(weft_sequencer *sequencer, weft_sequenced *item);
/* Takes the oldest one, if nothing is missing of it; NULL: none may begin now. */
weft_sequenced *weft_sequencer_next(weft_sequencer *sequencer);

#endif
