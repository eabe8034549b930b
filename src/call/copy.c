/* Copies of calls. */
#include <stdlib.h>
#include <string.h>

#include "call/call.h"
#include "runtime/runtime.h"

/* Appends `bytes` bytes to a block, with malloc()'s alignment; `block` NULL: only counts. */
static void *append(char *block, size_t *used, const void *from, size_t bytes)
{
    size_t at = *used;
    *used = at + weft_aligned(bytes);
    if (block == NULL || from == NULL) {
        return NULL;
    }
    return bytes == 0 ? block + at : memcpy(block + at, from, bytes);
}

/* Writes the copy; `block` NULL: only counts its bytes. */
static size_t copy_into(char *block, const weft_call *call)
{
    size_t used = 0;
    weft_call *copy = append(block, &used, call, sizeof(*call));
    for (int i = 0; i < call->num_inputs; i++) {
        const weft_access_map *map = call->access_map[i];
        void *own = map == NULL ? NULL : append(block, &used, map, sizeof(*map));
        if (copy != NULL) {
            copy->access_map[i] = own;
        }
    }
    const weft_call_details *details = call->details;
    if (details == NULL) {
        return used;
    }
    weft_call_details *own = append(block, &used, details, sizeof(*details));
    void *tensors = append(block, &used, details->tensors, (size_t)details->num_tensors * sizeof(details->tensors[0]));
    void *numbers = append(block, &used, details->numbers, (size_t)details->num_numbers * sizeof(details->numbers[0]));
    void *text = append(block, &used, details->text, details->text == NULL ? 0 : strlen(details->text) + 1);
    void *context = append(block, &used, details->context, details->context_size);
    if (own != NULL) {
        own->context = details->context_size > 0 ? context : details->context;
        own->tensors = tensors;
        own->numbers = numbers;
        own->text = text;
        own->origins = NULL;
        copy->details = own;
    }
    return used;
}

size_t weft_call_copy_bytes(const weft_call *call)
{
    return copy_into(NULL, call);
}

weft_call *weft_call_copy_to(void *memory, const weft_call *call)
{
    copy_into(memory, call);
    return memory;
}

weft_call *weft_call_copy(const weft_call *call, size_t *bytes)
{
    *bytes = weft_call_copy_bytes(call);
    void *memory = malloc(*bytes);
    return memory == NULL ? NULL : weft_call_copy_to(memory, call);
}

void weft_call_meet_layouts(const weft_call *call)
{
    for (int i = 0; i < call->num_inputs; i++) {
        weft_meet_layout(call->access_map[i] == NULL ? NULL : call->access_map[i]->cut);
    }
    if (call->details != NULL) {
        weft_meet_layout(call->details->layout);
    }
    if (call->operation->meet_layouts != NULL) {
        call->operation->meet_layouts(call);
    }
}
