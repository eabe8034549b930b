/* Periods of tokens, and their windows. */
#include <stdlib.h>

#include "graph/auto/auto.h"

/* Longer ones than MOST_PERIOD are not remembered as a whole. A period of less calls than LEAST_REPEATED must repeat more often: short
 * ones are met within longer ones. Several periods of less than SHORT_PERIOD calls are one window, because a run costs about as much
 * as two calls. A period whose number of tensors grows has no step that leaves as many; after LONG_REPEATED calls, and eight periods, it
 * counts all the same. */
enum { MOST_PERIOD = WEFT_RING / 2, LEAST_REPEATED = 16, SHORT_PERIOD = 16, LONG_REPEATED = 64 };

static weft_seen_call *seen_at(weft_observation *o, uint64_t position)
{
    return &o->ring[position % WEFT_RING];
}

static uint64_t turn(uint64_t token, int by)
{
    return token << by | token >> (64 - by);
}

/* A hash of a token and the three before it. Tokens are hashes. */
static uint64_t context_at(uint64_t newest, uint64_t before, uint64_t second, uint64_t third)
{
    return (newest ^ turn(before, 17) ^ turn(second, 34) ^ turn(third, 51)) * UINT64_C(0x9e3779b97f4a7c15);
}

static size_t index_of(uint64_t context)
{
    return (size_t)(context >> 32) % WEFT_TABLE;
}

/* ---- windows of a period ------------------------------------------------------------------------------------- */

/* A period as it was seen last, which repeats: its calls are numbered from 0 without an end. */
typedef struct repetition {
    weft_observation *of;
    uint64_t first, period;
} repetition;

static weft_seen_call *call_of(const repetition *r, uint64_t number)
{
    return seen_at(r->of, r->first + number % r->period);
}

/* After a call that ends windows; or where the fewest tensors live. */
static uint64_t find_start(const repetition *r)
{
    uint64_t best = 0;
    for (uint64_t i = 0; i < r->period; i++) {
        if (call_of(r, i)->ends || call_of(r, i)->sends) {
            return i + 1;
        }
        best = call_of(r, i)->live < call_of(r, best)->live ? i : best;
    }
    return best;
}

/* Whether the window takes the calls from `begin` to before `end`. */
static bool takes(const weft_repeated *window, const repetition *r, uint64_t begin, uint64_t end)
{
    bool same = (uint64_t)window->length == end - begin && window->sends == call_of(r, end - 1)->sends;
    for (uint64_t i = begin; i < end && same; i++) {
        same = window->tokens[i - begin] == call_of(r, i)->token;
    }
    return same;
}

/* A window for a place that has none: a new one, or, where there are enough, the one that was made longest ago. NULL: no memory. */
static weft_repeated *find_window(weft_observation *o)
{
    if (o->windows.count == WEFT_MOST_WINDOWS) {
        weft_repeated *oldest = ((weft_repeated **)o->windows.items)[o->oldest++ % WEFT_MOST_WINDOWS];
        if (!oldest->is_open) {
            o->beginnings[index_of(oldest->context)] = NULL;
        }
        return oldest;
    }
    weft_repeated *window = calloc(1, sizeof(*window));
    weft_repeated **place = window == NULL ? NULL : weft_vec_push(&o->windows, sizeof(weft_repeated *));
    if (place == NULL) {
        free(window);
        return NULL;
    }
    *place = window;
    return window;
}

/* A window takes the calls from `begin` to before `end`. One that begins with the first of them stays if it takes these, or if it is
 * mostly taken to its end. False: no memory. */
static bool add_window(const repetition *r, uint64_t begin, uint64_t end)
{
    weft_observation *o = r->of;
    uint64_t before = begin + 3 * r->period; /* else numbers could be below 0 */
    uint64_t context = context_at(call_of(r, before)->token, call_of(r, before - 1)->token, call_of(r, before - 2)->token,
                                  call_of(r, before - 3)->token);
    weft_repeated **beginning = &o->beginnings[index_of(context)], *window = *beginning;
    bool good = window != NULL && window->context == context && window->failures == 0 && !window->is_wrong;
    if (end - begin < WEFT_LEAST_WINDOW || good || (window != NULL && window->context == context && takes(window, r, begin, end))) {
        return true;
    }
    window = window == NULL ? find_window(o) : window;
    if (window == NULL || window->is_open) {
        return window != NULL;
    }
    weft_repeated_renew(window, context);
    window->length = (int)(end - begin);
    for (uint64_t i = begin; i < end; i++) {
        window->tokens[i - begin] = call_of(r, i)->token;
    }
    window->sends = call_of(r, end - 1)->sends;
    *beginning = window;
    return true;
}

/* Where the window that begins here ends: before a call that ends windows, after one that sends, at the end, or where the fewest
 * tensors live. */
static uint64_t find_end(const repetition *r, uint64_t begin, uint64_t last)
{
    uint64_t end = begin, best = begin + WEFT_MOST_WINDOW;
    while (end < last && !call_of(r, end)->ends) {
        end++;
        if (call_of(r, end - 1)->sends) {
            return end;
        }
        if (end - begin == WEFT_MOST_WINDOW && end < last && !call_of(r, end)->ends) {
            for (uint64_t i = end; i > begin + WEFT_MOST_WINDOW / 2; i--) {
                best = call_of(r, i)->live < call_of(r, best)->live ? i : best;
            }
            return best;
        }
    }
    return end;
}

/* Whether as many tensors lived at each of the newest calls as `period` calls before. */
static bool is_steady(weft_observation *o, uint64_t period)
{
    bool steady = true;
    for (uint64_t i = 1; i <= period && steady; i++) {
        steady = seen_at(o, o->position - i)->live == seen_at(o, o->position - i - period)->live;
    }
    return steady;
}

/* The least multiple of the period after which as many tensors live: the same calls may be made many times in one step of the program's,
 * which releases its tensors at its end, and windows are best cut there. 0: none yet. */
static uint64_t find_step(weft_observation *o)
{
    for (uint64_t period = o->period; 2 * period <= o->repeated + o->period && period <= MOST_PERIOD; period += o->period) {
        if (is_steady(o, period)) {
            return period;
        }
    }
    return o->repeated > LONG_REPEATED + 8 * o->period ? o->period : 0;
}

/* The period is that before the newest call, which has not been executed: whether it sends is not known yet. */
static bool add_windows(weft_observation *o, uint64_t period)
{
    const repetition r = { o, o->position - 1 - period, period };
    uint64_t begin = find_start(&r), last = begin + r.period;
    bool stops = begin > 0 && (call_of(&r, begin - 1)->ends || call_of(&r, begin - 1)->sends);
    if (!stops && r.period < SHORT_PERIOD) { /* several periods are a window */
        last = begin + r.period * ((SHORT_PERIOD + r.period - 1) / r.period);
    }
    bool done = true;
    while (begin < last && done) {
        uint64_t end = find_end(&r, begin, last);
        done = add_window(&r, begin, end);
        begin = end + (end < last && call_of(&r, end)->ends ? 1 : 0);
    }
    return done;
}

/* ---- calls ------------------------------------------------------------------------------------------------------ */

/* The number of calls since these four came last; 0: they have not, or long ago. Notes where they are. */
static uint64_t find_former(weft_observation *o, uint64_t position)
{
    weft_place *place = &o->places[index_of(o->context)];
    uint64_t distance = place->context == o->context ? position - place->position : 0;
    *place = (weft_place){ o->context, position };
    return distance > MOST_PERIOD ? 0 : distance;
}

bool weft_observe(weft_observation *o, uint64_t token, bool ends)
{
    const uint64_t position = o->position++;
    weft_seen_call *seen = seen_at(o, position);
    *seen = (weft_seen_call){ token, (uint32_t)weft_runtime.handles.tensors.num_objects, ends, false };
    o->context = context_at(token, seen_at(o, position - 1)->token, seen_at(o, position - 2)->token, seen_at(o, position - 3)->token);
    uint64_t distance = find_former(o, position);
    const bool repeats = o->period > 0 && seen_at(o, position - o->period)->token == token;
    o->period = repeats ? o->period : distance;
    o->repeated = repeats ? o->repeated + 1 : 0;
    o->is_known = repeats && o->is_known;
    seen->sends = o->period > 0 && seen_at(o, position - o->period)->sends; /* nobody sees it send where it is deferred */
    if (!repeats || o->is_known || o->repeated < LEAST_REPEATED || o->repeated < 2 * o->period || o->repeated % o->period != 0) {
        return true;
    }
    uint64_t step = find_step(o);
    o->is_known = step > 0;
    return step == 0 || add_windows(o, step);
}

void weft_observe_sends(weft_observation *o)
{
    seen_at(o, o->position - 1)->sends = true;
}

weft_repeated *weft_observed_beginning(const weft_observation *o)
{
    weft_repeated *window = o->beginnings[index_of(o->context)];
    return window != NULL && window->context == o->context ? window : NULL;
}

void weft_observation_free(weft_observation *o)
{
    for (size_t i = 0; o != NULL && i < o->windows.count; i++) {
        free(((weft_repeated **)o->windows.items)[i]); /* graphs end with all others */
    }
    if (o != NULL) {
        weft_vec_free(&o->windows);
    }
    free(o);
}
