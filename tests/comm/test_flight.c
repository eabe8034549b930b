/* The flight record: the last calls, written by one thread and read by another one. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "comm/flight.h"

static weft_call_signature call_of(const char *function, int num_numbers, const double numbers[])
{
    return (weft_call_signature){ .function = function, .num_numbers = num_numbers, .numbers = numbers };
}

static void test_last_calls_are_kept(void **state)
{
    (void)state;
    enum { CALLS = 3 * WEFT_FLIGHT_CALLS + 17 };
    weft_flight *flight = weft_flight_new();
    char text[200];
    double age_s = -1;
    assert_int_equal(weft_flight_last(flight), 0);
    assert_true(weft_flight_digest(flight, 0) == 0 && weft_flight_digest(flight, 1) == 0);
    assert_false(weft_flight_text(flight, 0, text, sizeof(text), NULL));
    for (uint64_t n = 1; n <= CALLS; n++) {
        const double numbers[] = { (double)n, 0.5 };
        weft_call_signature call = call_of(n % 2 == 0 ? "weft_even" : "weft_odd", 2, numbers);
        weft_flight_note(flight, &call, n, 7 * n);
    }
    assert_int_equal(weft_flight_last(flight), CALLS);
    for (uint64_t n = 1; n <= CALLS + 1; n++) {
        bool kept = n <= CALLS && n > CALLS - WEFT_FLIGHT_CALLS;
        char expected[64] = "";
        if (kept) {
            snprintf(expected, sizeof(expected), "weft_%s(%llu, 0.5)", n % 2 == 0 ? "even" : "odd",
                     (unsigned long long)n);
        }
        assert_true(weft_flight_digest(flight, n) == (kept ? 7 * n : 0));
        assert_int_equal(weft_flight_text(flight, n, text, sizeof(text), &age_s), kept);
        assert_string_equal(text, expected);
    }
    assert_true(age_s >= 0 && age_s < 60);
    weft_flight_free(flight);
}

/* Missing parts of a long call are marked, and a text that does not fit is truncated. */
static void test_long_calls(void **state)
{
    (void)state;
    weft_flight *flight = weft_flight_new();
    const double numbers[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
    weft_call_signature call = call_of("weft_long", 8, numbers);
    call.failed = true;
    char text[64], small[12];
    weft_flight_note(flight, &call, 1, 1);
    assert_true(weft_flight_text(flight, 1, text, sizeof(text), NULL));
    assert_string_equal(text, "weft_long(1, 2, 3, 4, 5, 6), which fails ...");
    assert_true(weft_flight_text(flight, 1, small, sizeof(small), NULL));
    assert_string_equal(small, "weft_long(1");
    weft_flight_free(flight);
}

typedef struct reading {
    weft_flight *flight;
    atomic_bool stop;
    int wrong, kept;
} reading;

/* A call that is read is one that was made: its name, numbers and digest fit together. */
static void *read_calls(void *argument)
{
    reading *r = argument;
    while (!r->stop) {
        uint64_t last = weft_flight_last(r->flight);
        for (uint64_t back = 0; back < 4 && back < last; back++) {
            uint64_t n = last - back;
            char text[64], expected[64];
            snprintf(expected, sizeof(expected), "weft_%s(%llu)", n % 2 == 0 ? "even" : "odd",
                     (unsigned long long)n);
            uint64_t digest = weft_flight_digest(r->flight, n);
            bool kept = weft_flight_text(r->flight, n, text, sizeof(text), NULL);
            r->kept += kept;
            r->wrong += (digest != 0 && digest != 7 * n) || (kept && strcmp(text, expected) != 0);
        }
    }
    return NULL;
}

static void test_read_while_written(void **state)
{
    (void)state;
    enum { CALLS = 200000 };
    reading r = { .flight = weft_flight_new() };
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, read_calls, &r), 0);
    for (uint64_t n = 1; n <= CALLS; n++) {
        const double number = (double)n;
        weft_call_signature call = call_of(n % 2 == 0 ? "weft_even" : "weft_odd", 1, &number);
        weft_flight_note(r.flight, &call, n, 7 * n);
    }
    r.stop = true;
    pthread_join(reader, NULL);
    assert_int_equal(r.wrong, 0);
    weft_flight_free(r.flight);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_last_calls_are_kept),
        cmocka_unit_test(test_long_calls),
        cmocka_unit_test(test_read_while_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
