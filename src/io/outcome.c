#include "io/outcome.h"

#include <string.h>

#include "arrays/arrays.h"
#include "base/disk.h"
#include "comm/check_spmd.h"
#include "runtime/runtime.h"

_Static_assert(sizeof(weft_outcome) % sizeof(int64_t) == 0, "an outcome travels as whole numbers");

void weft_outcome_fail(weft_outcome *outcome, weft_status status, const char *format, ...)
{
    if (outcome->status == WEFT_OK) {
        weft_text text = weft_text_in(outcome->text, sizeof(outcome->text));
        va_list arguments;
        va_start(arguments, format);
        weft_text_add_list(&text, format, arguments);
        va_end(arguments);
        outcome->status = status;
    }
}

void weft_outcome_fail_disk(weft_outcome *outcome, const char *path, const char *step)
{
    char failure[160], process[64];
    weft_disk_failure(step, failure, sizeof(failure));
    weft_process_text(weft_runtime.process, process, sizeof(process));
    weft_outcome_fail(outcome, WEFT_ERR_IO, "%s: %.150s: %s", process, path, failure);
}

weft_status weft_outcome_report(const char *function, const weft_outcome *outcome)
{
    return outcome->status == WEFT_OK ? WEFT_OK
                                      : weft_fail_alike((weft_status)outcome->status, function, "%s", outcome->text);
}

weft_status weft_outcome_broadcast(const char *function, int process, weft_outcome *outcome)
{
    int64_t numbers[WEFT_OUTCOME_NUMBERS];
    memcpy(numbers, outcome, sizeof(numbers));
    if (!weft_numbers_broadcast(function, process, WEFT_OUTCOME_NUMBERS, numbers)) {
        return weft_latest_status();
    }
    memcpy(outcome, numbers, sizeof(*outcome));
    return weft_outcome_report(function, outcome);
}

void weft_outcome_take_first(weft_outcome *outcome, int64_t count, const int64_t all[])
{
    for (int p = 0; p < weft_runtime.num_processes && outcome->status == WEFT_OK; p++) {
        memcpy(outcome, all + p * count, sizeof(*outcome));
    }
}

weft_status weft_outcome_agree(const char *function, int64_t count, const int64_t mine[], int64_t all[])
{
    weft_outcome outcome = { .status = WEFT_OK };
    if (!weft_numbers_gather(function, (int)count, mine, all)) {
        return weft_latest_status();
    }
    weft_outcome_take_first(&outcome, count, all);
    return weft_outcome_report(function, &outcome);
}
