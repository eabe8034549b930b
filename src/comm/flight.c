#include "comm/flight.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Only the first few layouts and numbers of a call are recorded, and the beginning of its text. */
enum { LAYOUTS = 3, NUMBERS = 6, TEXT_WORDS = 32, TEXT_BYTES = TEXT_WORDS * 8 };

/* Readers compare `number` before and after: 0 while the entry is being written. Release stores and
 * acquire loads keep this order; on x86 they are plain moves. */
typedef struct entry {
    _Atomic(uint64_t) number;
    _Atomic(uint64_t) digest;
    _Atomic(const char *) function;
    _Atomic(uint64_t) counts; /* has a text, failed, layouts, numbers: one byte each */
    _Atomic(double) made_s;
    _Atomic(const weft_layout *) layouts[LAYOUTS];
    _Atomic(double) numbers[NUMBERS];
    _Atomic(uint64_t) text[TEXT_WORDS];
} entry;

struct weft_flight {
    pthread_mutex_t sweep; /* readers hold it as long as they read layouts, and a sweep does */
    _Atomic(uint64_t) last;
    entry entries[WEFT_FLIGHT_CALLS];
};

weft_flight *weft_flight_new(void)
{
    weft_flight *flight = calloc(1, sizeof(weft_flight));
    if (flight != NULL && pthread_mutex_init(&flight->sweep, NULL) != 0) {
        free(flight);
        flight = NULL;
    }
    return flight;
}

void weft_flight_free(weft_flight *flight)
{
    if (flight != NULL) {
        pthread_mutex_destroy(&flight->sweep);
    }
    free(flight);
}

/* Accurate to some milliseconds; takes a fifth of the time of an exact clock. */
static double now_s(void)
{
#ifdef CLOCK_MONOTONIC_COARSE
    const clockid_t clock = CLOCK_MONOTONIC_COARSE;
#else
    const clockid_t clock = CLOCK_MONOTONIC;
#endif
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

#define STORE(to, value) atomic_store_explicit(&(to), value, memory_order_release)
#define LOAD(from) atomic_load_explicit(&(from), memory_order_acquire)

static void store_text(entry *e, const char *text)
{
    uint64_t words[TEXT_WORDS] = { 0 };
    snprintf((char *)words, TEXT_BYTES, "%s", text);
    for (int i = 0; i < TEXT_WORDS; i++) {
        STORE(e->text[i], words[i]);
    }
}

static void load_text(const entry *e, char text[TEXT_BYTES])
{
    for (int i = 0; i < TEXT_WORDS; i++) {
        uint64_t word = LOAD(e->text[i]);
        memcpy(text + (ptrdiff_t)i * 8, &word, sizeof(word));
    }
    text[TEXT_BYTES - 1] = '\0';
}

void weft_flight_note(weft_flight *flight, const weft_call_signature *call, uint64_t number, uint64_t digest)
{
    entry *e = &flight->entries[number % WEFT_FLIGHT_CALLS];
    STORE(e->number, 0);
    STORE(e->digest, digest);
    STORE(e->function, call->function);
    STORE(e->counts, (uint64_t)(call->text != NULL) << 24 | (uint64_t)call->failed << 16 | (uint64_t)(call->num_layouts & 255) << 8 |
                         (uint64_t)(call->num_numbers & 255));
    STORE(e->made_s, now_s());
    for (int i = 0; i < least(call->num_layouts, LAYOUTS); i++) {
        STORE(e->layouts[i], call->layouts[i]);
    }
    for (int i = 0; i < least(call->num_numbers, NUMBERS); i++) {
        STORE(e->numbers[i], call->numbers[i]);
    }
    if (call->text != NULL) {
        store_text(e, call->text);
    }
    STORE(e->number, number);
    STORE(flight->last, number);
}

void weft_flight_sweep_layouts(weft_flight *flight)
{
    pthread_mutex_lock(&flight->sweep);
    for (int k = 0; k < WEFT_FLIGHT_CALLS; k++) {
        const entry *e = &flight->entries[k];
        int count = least((int)(LOAD(e->counts) >> 8 & 255), LAYOUTS);
        for (int i = 0; i < count; i++) {
            weft_meet_layout(LOAD(e->layouts[i]));
        }
    }
    weft_layout_table_sweep(weft_runtime.layouts);
    pthread_mutex_unlock(&flight->sweep);
}

uint64_t weft_flight_last(const weft_flight *flight)
{
    return LOAD(flight->last);
}

uint64_t weft_flight_digest(const weft_flight *flight, uint64_t number)
{
    const entry *e = &flight->entries[number % WEFT_FLIGHT_CALLS];
    bool kept = number > 0 && LOAD(e->number) == number;
    uint64_t digest = LOAD(e->digest);
    return kept && LOAD(e->number) == number ? digest : 0;
}

/* Layouts are not freed meanwhile. */
static bool text_of(const weft_flight *flight, uint64_t number, char *text, size_t size, double *age_s)
{
    const entry *e = &flight->entries[number % WEFT_FLIGHT_CALLS];
    const weft_layout *layouts[LAYOUTS] = { NULL };
    double numbers[NUMBERS] = { 0 };
    char said[TEXT_BYTES];
    bool kept = number > 0 && LOAD(e->number) == number;
    uint64_t counts = LOAD(e->counts);
    weft_call_signature call = { .function = LOAD(e->function),
                                 .failed = counts >> 16 & 1,
                                 .num_layouts = least((int)(counts >> 8 & 255), LAYOUTS),
                                 .layouts = layouts,
                                 .num_numbers = least((int)(counts & 255), NUMBERS),
                                 .numbers = numbers,
                                 .text = (counts >> 24 & 1) != 0 ? said : NULL };
    load_text(e, said);
    double made_s = LOAD(e->made_s);
    for (int i = 0; i < LAYOUTS; i++) {
        layouts[i] = LOAD(e->layouts[i]);
    }
    for (int i = 0; i < NUMBERS; i++) {
        numbers[i] = LOAD(e->numbers[i]);
    }
    if (!kept || LOAD(e->number) != number) {
        snprintf(text, size, "%s", "");
        return false;
    }
    if (age_s != NULL) {
        *age_s = now_s() - made_s;
    }
    weft_call_describe(&call, text, size);
    bool more = (int)(counts >> 8 & 255) > LAYOUTS || (int)(counts & 255) > NUMBERS;
    size_t used = strlen(text);
    weft_text rest = weft_text_in(text + used, size - used);
    weft_text_add(&rest, "%s", more ? " ..." : "");
    return true;
}

bool weft_flight_text(weft_flight *flight, uint64_t number, char *text, size_t size, double *age_s)
{
    pthread_mutex_lock(&flight->sweep);
    bool kept = text_of(flight, number, text, size, age_s);
    pthread_mutex_unlock(&flight->sweep);
    return kept;
}
