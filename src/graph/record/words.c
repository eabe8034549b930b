/* Listings and saved graphs: the words of a call beside its tensors. */
#include "graph/record/trace.h"

void weft_call_words(weft_text *text, const char *name, int64_t count, const int64_t numbers[])
{
    for (int64_t i = 0; i < count; i++) {
        if (i == 0) {
            weft_text_add(text, " %s=", name);
        }
        weft_text_add(text, i == 0 ? "%lld" : ",%lld", (long long)numbers[i]);
    }
}

void weft_call_word(weft_text *text, const char *name, int64_t number, int64_t usual)
{
    weft_call_words(text, name, number != usual, &number);
}

void weft_call_attributes(weft_text *text, const weft_attributes *attributes)
{
    weft_call_word(text, "rule", attributes->rule, 0);
    weft_call_word(text, "leading", attributes->leading, 0);
    weft_call_word(text, "type", attributes->type, 0);
    weft_call_word(text, "omitted", attributes->omitted, 0);
    weft_call_words(text, "sizes", attributes->num_sizes, attributes->sizes);
    weft_call_words(text, "numbers", attributes->num_numbers, attributes->numbers);
}
