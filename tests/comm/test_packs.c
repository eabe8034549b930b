/* Parts of the communication engine alone: regions of memory, queues of sends, packs. */
#include "comm_support.h"

#include <string.h>

#include "comm/pack.h"
#include "comm/start_queue.h"

/* A message that could not be queued starts at once, and its end is reported all the same. */
static void test_sends_end_without_a_queue(void **state)
{
    (void)state;
    weft_start_queue *sends = weft_start_queue_new(0, 3, 100, false);
    assert_non_null(sends);
    weft_start_queue_ended(sends, 1, 7, 8);
    weft_waiting_message send = { .peer = 2, .tag = 5, .bytes = 8 }, next;
    assert_true(weft_start_queue_add(sends, &send));
    weft_start_queue_ended(sends, 2, 4, 8);
    assert_true(weft_start_queue_next(sends, &next));
    assert_int_equal(next.tag, 5);
    weft_start_queue_ended(sends, 2, 5, 8);
    assert_false(weft_start_queue_next(sends, &next));
    weft_start_queue_free(sends);
}

/* Whatever becomes ready first, messages start in the order of their tags, and apart
 * for each process. */
static void test_starts_in_order(void **state)
{
    (void)state;
    enum { COUNT = 1000, PEERS = 3 };
    prng random = prng_start(3);
    weft_start_queue *queue = weft_start_queue_new(0, PEERS, INT64_MAX, true);
    assert_non_null(queue);
    uint32_t expected[PEERS] = { 0 };
    for (uint32_t first = 0; first < COUNT; first += 8) {
        uint32_t tags[8];
        for (uint32_t i = 0; i < 8; i++) { /* a random order of the next eight */
            uint32_t k = (uint32_t)prng_below(&random, i + 1);
            tags[i] = tags[k];
            tags[k] = first + i;
        }
        for (int i = 0; i < 8 * PEERS; i++) {
            weft_waiting_message ready = { .peer = i % PEERS, .tag = tags[i / PEERS], .bytes = 1 }, next;
            assert_true(weft_start_queue_add(queue, &ready));
            while (weft_start_queue_next(queue, &next)) {
                assert_int_equal(next.tag, expected[next.peer]++);
                weft_start_queue_ended(queue, next.peer, next.tag, next.bytes);
            }
        }
    }
    for (int p = 0; p < PEERS; p++) {
        assert_int_equal(expected[p], COUNT);
    }
    weft_start_queue_free(queue);
}

/* Regions of boxes against a plain walk over their elements. */
static void test_regions(void **state)
{
    (void)state;
    prng random = prng_start(11);
    for (int i = 0; i < 2000; i++) {
        int64_t shape[4], offset[4], extent[4], stride[4], begin = 0;
        int ndim = (int)prng_below(&random, 5);
        int64_t step = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            shape[d] = 1 + prng_below(&random, 5);
            extent[d] = 1 + prng_below(&random, shape[d]);
            offset[d] = prng_below(&random, shape[d] - extent[d] + 1);
            stride[d] = step;
            begin += offset[d] * step;
            step *= shape[d];
        }
        uint16_t dense[625], expected[625], packed[625];
        for (int e = 0; e < 625; e++) {
            dense[e] = (uint16_t)prng_next(&random);
        }
        weft_region region = weft_region_of_box(ndim, extent, stride, sizeof(uint16_t), begin * 2);
        int64_t count = shape_count(ndim, extent);
        assert_int_equal(weft_region_bytes(&region), count * 2);
        copy_box_out(ndim, shape, sizeof(uint16_t), dense, offset, extent, expected);
        move_region(&region, (char *)dense, (char *)packed, false);
        assert_memory_equal(expected, packed, (size_t)count * 2);
        memset(packed, 0, sizeof(packed));
        weft_region_read(&region, dense, packed);
        assert_memory_equal(expected, packed, (size_t)count * 2);
        uint16_t other[625] = { 0 }, wanted[625] = { 0 };
        move_region(&region, (char *)wanted, (char *)packed, true);
        weft_region_write(&region, other, packed);
        assert_memory_equal(wanted, other, sizeof(other));
    }
}

/* ---- packs --------------------------------------------------------------------------------------------- */

enum { PACKED = 3000, PACKED_PEERS = 3, PACKED_ROWS = 24, PACKED_COLUMNS = 8 };

/* A block of columns of a small matrix, as its tag and peer say; the receiving side has it in one run. */
static weft_message packed_message(int i, bool receive)
{
    int64_t extent[] = { 1 + i % PACKED_ROWS, 1 + i % 7 }, stride[] = { PACKED_COLUMNS, 1 };
    weft_message message = { .peer = i % PACKED_PEERS, .tag = 0xfffffff0u + (uint32_t)i / 2 };
    message.source_rank = i / PACKED_PEERS % 5;
    message.target_rank = i % 2; /* pairs have one tag: what else is in the header tells them apart */
    message.region = weft_region_of_box(2, extent, stride, sizeof(uint16_t), i % 2 * 2);
    message.bytes = weft_region_bytes(&message.region);
    if (receive) {
        message.region = (weft_region){ .offset = 4, .run_bytes = message.bytes };
    }
    return message;
}

typedef struct packed_pair {
    weft_message send, receive;
    uint16_t from[PACKED_ROWS * PACKED_COLUMNS], to[PACKED_ROWS * PACKED_COLUMNS + 2];
    int ended;
} packed_pair;

static packed_pair packed_pairs[PACKED];

static void count_ended(weft_vec *finished)
{
    const weft_finished *all = finished->items;
    for (size_t i = 0; i < finished->count; i++) {
        assert_int_equal(all[i].status, WEFT_OK);
        ((packed_pair *)all[i].token)->ended++;
    }
    finished->count = 0;
}

/* Packs of many peers, some before their receives are started and some after: each message reaches its own
 * place, once. */
static void test_packs(void **state)
{
    (void)state;
    prng random = prng_start(5);
    weft_inbox *inbox = weft_inbox_new();
    assert_non_null(inbox);
    weft_vec finished = { 0 };
    static weft_pack packs[PACKED_PEERS];
    int order[PACKED];
    for (int i = 0; i < PACKED; i++) {
        packed_pair *pair = &packed_pairs[i];
        pair->send = packed_message(i, false);
        pair->receive = packed_message(i, true);
        for (size_t k = 0; k < WEFT_ARRAY_SIZE(pair->from); k++) {
            pair->from[k] = (uint16_t)prng_next(&random);
        }
        order[i] = i;
    }
    for (int i = PACKED - 1; i > 0; i--) {
        int other = (int)prng_below(&random, i + 1), kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    int sent_packs = 0;
    for (int i = 0; i < PACKED; i++) {
        /* Sent in the order of the tags; received in another. */
        const weft_message *send = &packed_pairs[i].send;
        weft_pack *pack = &packs[send->peer];
        if (!weft_pack_put(pack, send, packed_pairs[i].from)) {
            assert_int_equal(weft_inbox_take(inbox, send->peer, pack->bytes, pack->used, &finished), WEFT_OK);
            *pack = (weft_pack){ 0 };
            sent_packs++;
            assert_true(weft_pack_put(pack, send, packed_pairs[i].from));
        }
        packed_pair *wanted = &packed_pairs[order[i]];
        bool came = false;
        assert_int_equal(weft_inbox_expect(inbox, &wanted->receive, wanted->to, wanted, &came), WEFT_OK);
        wanted->ended += came;
        count_ended(&finished);
    }
    assert_true(sent_packs > PACKED_PEERS);
    for (int peer = 0; peer < PACKED_PEERS; peer++) {
        assert_int_equal(weft_inbox_take(inbox, peer, packs[peer].bytes, packs[peer].used, &finished),
                         WEFT_OK);
    }
    count_ended(&finished);
    for (int i = 0; i < PACKED; i++) {
        packed_pair *pair = &packed_pairs[i];
        char expected[sizeof(pair->from)];
        assert_int_equal(pair->ended, 1);
        move_region(&pair->send.region, (char *)pair->from, expected, false);
        assert_memory_equal((char *)pair->to + 4, expected, (size_t)pair->send.bytes);
    }
    weft_vec_free(&finished);
    weft_inbox_free(inbox);
}

/* Another size, other ranks, another peer: no match, and the memory stays as it was. */
static void test_packs_that_differ(void **state)
{
    (void)state;
    weft_inbox *inbox = weft_inbox_new();
    weft_vec finished = { 0 };
    static weft_pack pack;
    int from[4] = { 1, 2, 3, 4 }, to[4] = { 0 };
    weft_message sent = plain_message(7, 8), wanted[4] = { sent, sent, sent, sent };
    wanted[0].bytes = wanted[0].region.run_bytes = 16;
    wanted[1].target_rank = 1;
    wanted[2].peer = 1;
    wanted[3].tag = 8;
    bool came = true;
    for (int i = 0; i < 4; i++) {
        assert_int_equal(weft_inbox_expect(inbox, &wanted[i], to, NULL, &came), WEFT_OK);
        assert_false(came);
    }
    pack = (weft_pack){ 0 };
    assert_true(weft_pack_put(&pack, &sent, from));
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, pack.used, &finished), WEFT_OK);
    assert_int_equal(finished.count, 0);
    assert_int_equal(to[0], 0);
    /* A buffer that is not a pack is not read beyond its end. */
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, pack.used - 1, &finished), WEFT_ERR_COMM);
    assert_int_equal(weft_inbox_take(inbox, 0, pack.bytes, 3, &finished), WEFT_ERR_COMM);
    assert_int_equal(weft_inbox_expect(inbox, &sent, to, NULL, &came), WEFT_OK);
    assert_true(came);
    assert_memory_equal(to, from, 8);
    weft_vec_free(&finished);
    weft_inbox_free(inbox); /* with what nobody has asked for */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_starts_in_order),
        cmocka_unit_test(test_regions),
        cmocka_unit_test(test_packs),
        cmocka_unit_test(test_packs_that_differ),
        cmocka_unit_test(test_sends_end_without_a_queue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
