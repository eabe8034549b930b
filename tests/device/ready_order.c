/* A deliberate fault: groups begin as they become ready. Linked with -Wl,--wrap=weft_sequencer_next. */
#include <stddef.h>

#include "comm/sequencer.h"

weft_sequenced *__wrap_weft_sequencer_next(weft_sequencer *sequencer);

weft_sequenced *__wrap_weft_sequencer_next(weft_sequencer *sequencer)
{
    weft_sequenced *before = NULL;
    for (weft_sequenced *each = sequencer->first; each != NULL; before = each, each = each->next) {
        if (each->missing == 0) {
            *(before == NULL ? &sequencer->first : &before->next) = each->next;
            sequencer->last = sequencer->last == each ? before : sequencer->last;
            return each;
        }
    }
    return NULL;
}
