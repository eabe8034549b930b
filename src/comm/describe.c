/* Calls and processes as text, for messages and records. */
#include <stdio.h>

#include "comm/check_spmd.h"
#include "runtime/runtime.h"

char *weft_call_describe(const weft_call_signature *call, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    weft_text_add(&text, "%s(", call->function);
    const char *between = "";
    if (call->text != NULL) {
        weft_text_add(&text, "%s", call->text);
        between = ", ";
    }
    for (int i = 0; i < call->num_layouts; i++) {
        char layout[256] = "";
        if (call->layouts[i] != NULL) {
            weft_text_add(&text, "%s%s", between, weft_layout_format(call->layouts[i], layout, sizeof(layout)));
            between = ", ";
        }
    }
    for (int i = 0; i < call->num_numbers; i++) {
        weft_text_add(&text, "%s%.17g", between, call->numbers[i]);
        between = ", ";
    }
    weft_text_add(&text, ")%s", call->failed ? ", which fails" : "");
    return buffer;
}

char *weft_process_text(int process, char *text, size_t size)
{
    int first = weft_runtime.first_rank_of[process], last = weft_runtime.first_rank_of[process + 1] - 1;
    if (first == last) {
        snprintf(text, size, "process %d (rank %d)", process, first);
    } else {
        snprintf(text, size, "process %d (ranks %d to %d)", process, first, last);
    }
    return text;
}
