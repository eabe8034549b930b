/* runtime/blocks.h: blocks that one thread takes and others give back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/blocks.h"

/* Sizes about those at which blocks are kept apart, and one that is not kept. */
static const size_t sizes[] = { 1, 256, 257, 512, 600, 2048, 4096, 4097, 100000 };
enum { NUM_SIZES = sizeof(sizes) / sizeof(sizes[0]) };

static void assert_zero(const unsigned char *block, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        assert_int_equal(block[i], 0);
    }
}

static void blocks_are_zeroed_aligned_and_apart(void **state)
{
    (void)state;
    weft_blocks *blocks = weft_blocks_new();
    assert_non_null(blocks);
    for (int round = 0; round < 3; round++) {
        unsigned char *taken[NUM_SIZES];
        for (int i = 0; i < NUM_SIZES; i++) {
            taken[i] = weft_block_take(blocks, sizes[i]);
            assert_non_null(taken[i]);
            assert_int_equal((uintptr_t)taken[i] % _Alignof(max_align_t), 0);
            assert_zero(taken[i], sizes[i]);
            memset(taken[i], i + 1, sizes[i]);
        }
        for (int i = 0; i < NUM_SIZES; i++) {
            assert_int_equal(taken[i][0], i + 1);
            assert_int_equal(taken[i][sizes[i] - 1], i + 1);
            weft_block_give(taken[i]);
        }
    }
    weft_block_give(NULL);
    weft_blocks_delete(blocks);
    weft_blocks_delete(NULL);
}

static void a_block_is_used_again(void **state)
{
    (void)state;
    weft_blocks *blocks = weft_blocks_new();
    void *first = weft_block_take(blocks, 300);
    weft_block_give(first);
    assert_ptr_equal(weft_block_take(blocks, 400), first); /* of about that size */
    void *second = weft_block_take(blocks, 300);
    assert_ptr_not_equal(second, first);
    weft_block_give(second);
    weft_block_give(first);
    weft_blocks_delete(blocks);
}

/* ---- several threads ----------------------------------------------------------------------------------- */

enum { GIVERS = 3, SLOTS = 64, ROUNDS = 20000 };

typedef struct exchange {
    _Atomic(unsigned char *) slots[SLOTS]; /* full: to be given back */
    _Atomic int done;
} exchange;

static void *give_back(void *argument)
{
    exchange *e = argument;
    for (bool last = false; !last;) {
        last = e->done; /* before looking: what was put there till then is found */
        for (int i = 0; i < SLOTS; i++) {
            unsigned char *block = atomic_exchange(&e->slots[i], NULL);
            if (block != NULL) {
                memset(block, 0xee, 300);
                weft_block_give(block);
            }
        }
    }
    return NULL;
}

static void threads_give_back_what_one_takes(void **state)
{
    (void)state;
    weft_blocks *blocks = weft_blocks_new();
    exchange e = { .done = 0 };
    pthread_t givers[GIVERS];
    for (int i = 0; i < GIVERS; i++) {
        assert_int_equal(pthread_create(&givers[i], NULL, give_back, &e), 0);
    }
    for (int round = 0; round < ROUNDS; round++) {
        unsigned char *block = weft_block_take(blocks, 300);
        assert_non_null(block);
        assert_zero(block, 300); /* or another has it too, and writes */
        weft_block_give(atomic_exchange(&e.slots[round % SLOTS], block));
    }
    e.done = 1;
    for (int i = 0; i < GIVERS; i++) {
        pthread_join(givers[i], NULL);
    }
    weft_blocks_delete(blocks); /* what is still out would be a leak */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_zeroed_aligned_and_apart),
        cmocka_unit_test(a_block_is_used_again),
        cmocka_unit_test(threads_give_back_what_one_takes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
