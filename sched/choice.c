#include "sched/choice.h"

#include <math.h>

static double end_us(const weft_sched_place *place)
{
    return place->queued_us + place->transfer_us + place->task_us;
}

static bool has_fewer(const weft_sched_place *a, const weft_sched_place *b)
{
    return a->waiting < b->waiting;
}

static bool ends_first(const weft_sched_place *a, const weft_sched_place *b)
{
    return end_us(a) != end_us(b) ? end_us(a) < end_us(b) : has_fewer(a, b);
}

static bool has_more(const weft_sched_place *a, const weft_sched_place *b)
{
    if (a->device != b->device) {
        return a->device;
    }
    return a->bytes != b->bytes ? a->bytes > b->bytes : has_fewer(a, b);
}

static bool is_unknown(const weft_sched_place *place)
{
    return place->can && isnan(place->task_us);
}

int weft_sched_choose(int count, const weft_sched_place places[], bool explores)
{
    bool all_known = true;
    for (int i = 0; i < count; i++) {
        all_known = all_known && !is_unknown(&places[i]);
    }
    bool only_unknown = explores && !all_known;
    int best = -1;
    for (int i = 0; i < count; i++) {
        const weft_sched_place *place = &places[i];
        if (!place->can || (only_unknown && !is_unknown(place))) {
            continue;
        }
        bool better = best < 0 || (all_known      ? ends_first(place, &places[best])
                                   : only_unknown ? has_fewer(place, &places[best])
                                                  : has_more(place, &places[best]));
        best = better ? i : best;
    }
    return best;
}

int weft_sched_victim(int count, const size_t waiting[], int own)
{
    enum { ENOUGH = 4 }; /* StarPU has two tasks of a device under way, and loads the operands of more */
    int busiest = -1;
    for (int i = 0; i < count; i++) {
        if (i != own && waiting[i] > ENOUGH && (busiest < 0 || waiting[i] > waiting[busiest])) {
            busiest = i;
        }
    }
    return busiest;
}
