/* src/base/lru.h: a cache with a budget of bytes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/lru.h"
#include "prng.h"

typedef struct kept_number {
    weft_lru_entry entry;
    uint64_t number;
} kept_number;

static int64_t destroyed;

static void destroy_number(weft_lru_entry *entry)
{
    destroyed++;
    free(entry);
}

static kept_number *find_number(const weft_map *map, uint64_t number)
{
    weft_map_slot *slot = weft_map_first(map, number % 7);
    while (slot != NULL && ((kept_number *)slot->value)->number != number) {
        slot = weft_map_next(map, slot);
    }
    return slot == NULL ? NULL : slot->value;
}

/* Compared with a list of all numbers by last use, of which the newest that fit are kept. */
static void least_recently_used_go_first(void **state)
{
    (void)state;
    enum { NUMBERS = 60, STEPS = 20000, EACH = 100 + WEFT_LRU_ENTRY_BYTES, FIT = 13 };
    weft_lru lru = { .budget = FIT * EACH + EACH / 2 };
    weft_map map = { NULL, 0, 0 };
    uint64_t order[NUMBERS];
    int known = 0;
    int64_t made = 0;
    prng r = prng_start(5);
    destroyed = 0;
    for (int step = 0; step < STEPS; step++) {
        /* Some are asked for more often than others. */
        uint64_t number = prng_next(&r) % (step % 3 == 0 ? NUMBERS : 15);
        int at = 0;
        while (at < known && order[at] != number) {
            at++;
        }
        kept_number *found = find_number(&map, number);
        assert_int_equal(found != NULL, at < known && at < FIT);
        if (found != NULL) {
            weft_lru_hold(&found->entry);
        } else {
            made++;
            found = calloc(1, sizeof(*found));
            assert_non_null(found);
            found->number = number;
            found->entry.destroy = destroy_number;
            weft_lru_hold(&found->entry);
            assert_true(weft_lru_keep(&lru, &map, number % 7, &found->entry, 100));
        }
        weft_lru_release(&found->entry);
        known += at == known;
        memmove(order + 1, order, (size_t)at * sizeof(order[0]));
        order[0] = number;
        assert_true(lru.bytes <= lru.budget);
        assert_int_equal(map.count, made - destroyed);
        assert_int_equal(lru.bytes, map.count * EACH);
    }
    weft_lru_clear(&lru);
    assert_int_equal(destroyed, made);
    assert_int_equal(lru.bytes, 0);
    assert_int_equal(map.count, 0);
    weft_map_free(&map);
}

/* A held entry is freed at its release; one larger than the budget belongs to its holder alone. */
static void what_is_held_goes_when_it_is_released(void **state)
{
    (void)state;
    weft_lru lru = { .budget = 1000 };
    weft_map map = { NULL, 0, 0 };
    kept_number *each[3];
    destroyed = 0;
    for (int i = 0; i < 3; i++) {
        each[i] = calloc(1, sizeof(*each[i]));
        assert_non_null(each[i]);
        each[i]->number = (uint64_t)i;
        each[i]->entry.destroy = destroy_number;
        weft_lru_hold(&each[i]->entry);
        assert_int_equal(weft_lru_keep(&lru, &map, (uint64_t)i, &each[i]->entry, i == 0 ? 2000 : 100), i > 0);
    }
    assert_null(each[0]->entry.lru);
    weft_lru_release(&each[0]->entry);
    assert_int_equal(destroyed, 1);
    assert_false(weft_lru_grow(&each[1]->entry, 1000));
    assert_int_equal(map.count, 2); /* in vain, so nothing has gone */
    assert_true(weft_lru_grow(&each[1]->entry, 1000 - 100 - WEFT_LRU_ENTRY_BYTES));
    assert_int_equal(lru.bytes, 1000);
    assert_int_equal(map.count, 1); /* the newer one has gone: the one that grew is in use */
    assert_null(find_number(&map, 2));
    assert_int_equal(destroyed, 1);
    assert_false(weft_lru_grow(&each[2]->entry, 1));
    weft_lru_release(&each[2]->entry);
    assert_int_equal(destroyed, 2);
    weft_lru_clear(&lru);
    assert_int_equal(destroyed, 2);
    weft_lru_release(&each[1]->entry);
    assert_int_equal(destroyed, 3);
    weft_map_free(&map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(least_recently_used_go_first),
        cmocka_unit_test(what_is_held_goes_when_it_is_released),
    };
    return cmocka_run_group_tests_name("lru", tests, NULL, NULL);
}
