#include "call/recorder.h"

#include <stdlib.h>
#include <string.h>

#include "call/context.h"
#include "call/deferral.h"

void weft_recorder_install(weft_recorder *recorder)
{
    recorder->next = weft_runtime.recorder;
    weft_runtime.recorder = recorder;
}

void weft_recorder_remove(weft_recorder *recorder)
{
    weft_recorder **link = &weft_runtime.recorder;
    while (*link != NULL && *link != recorder) {
        link = &(*link)->next;
    }
    if (*link != NULL) {
        *link = recorder->next;
    }
}

static const weft_call *prepare(const weft_call *call, weft_call *own)
{
    for (weft_recorder *r = weft_runtime.recorder; r != NULL && call != NULL; r = r->next) {
        if (r->prepare != NULL) {
            call = r->prepare(r, call, own);
        }
    }
    return call;
}

const weft_call *weft_call_prepare(const weft_call *call, weft_call *own)
{
    return weft_is_listened_to() ? prepare(call, own) : call;
}

static void begin(const weft_call *call, int num_outputs)
{
    for (weft_recorder *r = weft_runtime.recorder; r != NULL; r = r->next) {
        if (r->begin != NULL) {
            r->begin(r, call, num_outputs);
        }
    }
}

static bool is_executed(const weft_call *call, int num_outputs, weft_tensor *outputs[], weft_status *status)
{
    for (weft_recorder *r = weft_runtime.recorder; r != NULL; r = r->next) {
        if (r->execute != NULL && r->execute(r, call, num_outputs, outputs, status)) {
            return true;
        }
    }
    return false;
}

weft_status weft_call_carry_out(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    weft_deferral *deferral = weft_runtime.context.deferral;
    weft_status status;
    return deferral != NULL && deferral->take(deferral, call, outputs, &status) ? status : perform(call, outputs);
}

/* Public calls made by a recorder are not recorded: the depth counts the recorded call. */
weft_status weft_call_tell(const weft_call *call, weft_tensor *outputs[], weft_perform_function perform)
{
    const int num_outputs = weft_call_num_outputs(call);
    weft_status status = WEFT_OK;
    weft_call own;
    call = prepare(call, &own);
    if (call == NULL) {
        return weft_latest_status();
    }
    const weft_context outer = weft_context_enter(weft_context_within_call());
    begin(call, num_outputs);
    if (!is_executed(call, num_outputs, outputs, &status)) {
        status = weft_call_carry_out(call, outputs, perform);
    }
    for (weft_recorder *r = weft_runtime.recorder, *next; r != NULL; r = next) {
        next = r->next; /* it may be removed by its own end() */
        if (r->end != NULL) {
            r->end(r, call, status == WEFT_OK ? num_outputs : 0, outputs, status);
        }
    }
    weft_context_leave(outer);
    return status;
}

/* ---- copies -------------------------------------------------------------------------------------------- */

/* Appends `bytes` bytes to a block, with malloc()'s alignment; `block` NULL: only counts. */
static void *append(char *block, size_t *used, const void *from, size_t bytes)
{
    size_t at = *used;
    *used = at + (bytes + 15) / 16 * 16;
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
    if (own != NULL) {
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
    if (call->action != NULL && call->action->meet_layouts != NULL) {
        call->action->meet_layouts(call);
    }
}
