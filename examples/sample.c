#include "sample.h"

#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

enum { MAX_SYMBOLS = 256 };

void sample_write(const sampler *s, int64_t count, int32_t window[], dice *d)
{
    const int64_t last = s->window - 1, shown = s->window < 64 ? s->window : 64;
    bool speak = weft_process_index() == 0;
    if (speak) {
        printf("At temperature %g the model writes, after \"", s->temperature);
        for (int64_t i = s->window - shown; i <= last; i++) {
            char c = s->character(window[i]);
            printf(c == '\n' ? "\\n" : "%c", c);
        }
        printf("\":\n\n  ");
    }
    for (int64_t n = 0; n < count && weft_last_status() == WEFT_OK; n++) {
        double logits[MAX_SYMBOLS] = { 0 };
        s->predict(s->context, window, logits);
        memmove(window, window + 1, (size_t)last * sizeof(*window));
        window[last] = (int32_t)dice_softmax(d, s->symbols, logits, s->temperature);
        if (speak) {
            char c = s->character(window[last]);
            printf(c == '\n' ? "\n  " : "%c", c);
            fflush(stdout);
        }
    }
    if (speak) {
        printf("\n\n");
    }
}
