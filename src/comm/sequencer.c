#include "comm/sequencer.h"

void weft_sequencer_add(weft_sequencer *sequencer, weft_sequenced *item)
{
    item->next = NULL;
    *(sequencer->first == NULL ? &sequencer->first : &sequencer->last->next) = item;
    sequencer->last = item;
}

weft_sequenced *weft_sequencer_next(weft_sequencer *sequencer)
{
    weft_sequenced *first = sequencer->first;
    if (first == NULL || first->missing > 0) {
        return NULL;
    }
    sequencer->first = first->next;
    return first;
}
