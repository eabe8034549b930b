/* Stages with access maps: random layouts, every index compared with the definition, and sends with
 * receives. WEFT_TEST_CASES gives the number of cases. */
#include "plan_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whether some row first .. last needs index s: between the bounds of the first and of the last one, which
 * change places where later rows need earlier indices. Of a periodic dimension, index s of this image. */
static bool needs(const weft_window *w, int64_t image, int64_t first, int64_t extent, int64_t s)
{
    bool inside = s >= 0 && s < w->size;
    s += image * w->size;
    int64_t last = first + extent - 1;
    int64_t low = (w->times > 0 ? first : last) * w->times, high = (w->times > 0 ? last : first) * w->times;
    return extent > 0 && inside && s * w->over >= low - w->before &&
           s * w->over <= high + w->after;
}

typedef struct windows_case {
    weft_mesh_impl *mesh;
    int ndim, world_size;
    const weft_layout *from, *to;
    weft_access_map access_map;
    weft_stage stage;
    placed_world world;
} windows_case;

static int64_t parts_of(const windows_case *c, int d)
{
    int64_t parts = 1;
    for (int m = 0; m < c->mesh->ndim; m++) {
        weft_placement p = c->access_map.cut->placements[m];
        parts *= p.kind == WEFT_SHARD && p.dim == d ? c->mesh->shape[m] : 1;
    }
    return parts;
}

static void make_case(prng *random, weft_layout_table *table, windows_case *c)
{
    int64_t rows[WEFT_MAX_DIMS], size[WEFT_MAX_DIMS], room[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    *c = (windows_case){ .world_size = 1 + (int)prng_below(random, 12) };
    c->mesh = drawn_mesh(random, c->world_size, c->world_size);
    random_topology(random, c->world_size, &c->world);
    c->ndim = drawn_shape(random, 3, 9, 400, rows);
    drawn_placements(random, c->mesh, c->ndim, false, placements);
    drawn_sizes(random, c->mesh, c->ndim, rows, placements);
    c->access_map.cut = weft_layout_intern(table, c->mesh, placements, c->ndim, rows, WEFT_F32);
    c->access_map.placed = prng_below(random, 4) == 0;
    for (int d = 0; d < c->ndim; d++) {
        c->access_map.has[d] = prng_below(random, 3) > 0;
        size[d] = c->access_map.has[d] ? prng_below(random, 20) : rows[d];
        if (c->access_map.has[d]) {
            bool back = prng_below(random, 3) == 0;
            int64_t times = 1 + prng_below(random, 4), end = back ? times * (rows[d] - 1) : 0;
            c->access_map.of[d] = (weft_window){ .size = size[d],
                                              .times = back ? -times : times,
                                              .over = 1 + prng_below(random, 4),
                                              .before = prng_below(random, 9) - 3 - end,
                                              .after = prng_below(random, 9) - 3 + end,
                                              .periodic = prng_below(random, 3) == 0 };
        }
        if (c->access_map.has[d] && c->access_map.placed) {
            int64_t before = prng_below(random, 20) - 10;
            c->access_map.of[d] = (weft_window){ size[d], 1, 1, before, -before, 0 };
        }
        room[d] = c->access_map.placed   ? rows[d]
                  : c->access_map.has[d] ? parts_of(c, d) * weft_access_map_largest(&c->access_map, d)
                                      : size[d];
    }
    for (int m = 0; m < c->mesh->ndim; m++) {
        bool may_turn =
            !c->access_map.placed && placements[m].kind == WEFT_SHARD && c->access_map.has[placements[m].dim];
        c->access_map.turn[m] = may_turn && prng_below(random, 2) ? prng_below(random, c->mesh->shape[m]) : 0;
    }
    c->from = weft_layout_intern(table, c->mesh, placements, c->ndim, size, WEFT_F32);
    for (int m = 0; m < c->mesh->ndim && !c->access_map.placed; m++) {
        bool mapped = placements[m].kind == WEFT_SHARD && c->access_map.has[placements[m].dim];
        placements[m] = mapped ? weft_shard(placements[m].dim) : placements[m]; /* parts of one size */
    }
    c->to = weft_layout_intern(table, c->mesh, placements, c->ndim, room, WEFT_F32);
    assert_true(!c->access_map.placed || weft_access_map_consecutive(&c->access_map));
    c->stage = (weft_stage){ .from = c->from, .to = c->to, .access_map = &c->access_map, .scale = 1.0 };
}

/* The part whose indices the rank gets: the one so many turns further. */
static weft_box turned_part(const windows_case *c, int rank)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(c->mesh, weft_mesh_index_of(c->mesh, rank), coordinate);
    for (int m = 0; m < c->mesh->ndim; m++) {
        coordinate[m] = (coordinate[m] + c->access_map.turn[m]) % c->mesh->shape[m];
    }
    return reference_box(c->access_map.cut, weft_mesh_ravel(c->mesh, coordinate));
}

static bool box_has(int ndim, const weft_box *box, const int64_t element[])
{
    for (int d = 0; d < ndim; d++) {
        if (element[d] < box->offset[d] || element[d] >= box->offset[d] + box->extent[d]) {
            return false;
        }
    }
    return true;
}

static bool wants(const windows_case *c, const weft_box *part, const int64_t element[])
{
    for (int d = 0; d < c->ndim; d++) {
        bool inside = c->access_map.has[d]
                          ? needs(&c->access_map.of[d], c->access_map.image[d], part->offset[d], part->extent[d], element[d])
                          : element[d] >= part->offset[d] && element[d] < part->offset[d] + part->extent[d];
        if (!inside) {
            return false;
        }
    }
    /* An empty part needs nothing, whatever its other dimensions. */
    return weft_box_count(c->ndim, part) > 0;
}

/* Number of transfers that bring an element; asserts that its source has it and that the target has a
 * place for it. */
static int times_received(const windows_case *c, int rank, const weft_transfers *moves, const int64_t element[])
{
    int64_t shift[WEFT_MAX_DIMS], moved[WEFT_MAX_DIMS];
    weft_box there, own, read;
    weft_access_map_rank_box(&c->access_map, rank, &read);
    weft_stage_shift(&c->stage, rank, shift);
    assert_true(weft_layout_shard_box(c->to, rank, &there) && weft_layout_shard_box(c->from, rank, &own));
    int times = 0;
    for (size_t i = 0; i < moves->count; i++) {
        weft_box source;
        if (!box_has(c->ndim, &moves->items[i].box, element)) {
            continue;
        }
        times++;
        assert_true(weft_layout_shard_box(c->from, moves->items[i].peer, &source));
        assert_true(box_has(c->ndim, &source, element));
        assert_true(moves->items[i].peer == rank || !box_has(c->ndim, &own, element));
        for (int d = 0; d < c->ndim; d++) {
            moved[d] = element[d] + shift[d];
        }
        assert_true(box_has(c->ndim, &there, moved));
        for (int d = 0; d < c->ndim && !c->access_map.placed; d++) { /* in the rank's order, images one after another */
            int64_t index = element[d] + c->access_map.image[d] * c->access_map.of[d].size;
            assert_true(!c->access_map.has[d] || moved[d] - there.offset[d] == index - read.offset[d]);
        }
    }
    return times;
}

/* The number of elements received. */
static int64_t check_receives(const windows_case *c, int rank, const weft_transfers *moves)
{
    weft_box all = weft_box_whole(c->ndim, c->from->shape);
    weft_box part = turned_part(c, rank);
    int64_t element[WEFT_MAX_DIMS], total = 0, moved = 0;
    memcpy(element, all.offset, sizeof(element));
    if (weft_box_count(c->ndim, &all) > 0) {
        do {
            int expected = wants(c, &part, element);
            assert_int_equal(times_received(c, rank, moves, element), expected);
            total += expected;
        } while (next_element(c->ndim, &all, element));
    }
    for (size_t i = 0; i < moves->count; i++) {
        assert_true(weft_box_count(c->ndim, &moves->items[i].box) > 0);
        moved += weft_box_count(c->ndim, &moves->items[i].box);
    }
    assert_int_equal(moved, total);
    return total;
}

/* Every receive is one send of its source, and there are no others. */
static void check_sends(const windows_case *c, weft_transfers receives[])
{
    size_t sent = 0, received = 0;
    for (int rank = 0; rank < c->world_size; rank++) {
        weft_transfers sends = { 0 };
        assert_int_equal(weft_stage_sends(&c->stage, &c->world.topology, rank, &sends), WEFT_OK);
        for (size_t i = 0; i < sends.count; i++) {
            const weft_transfers *other = &receives[sends.items[i].peer];
            int found = 0;
            for (size_t j = 0; j < other->count; j++) {
                found += other->items[j].peer == rank &&
                         weft_box_equal(c->ndim, &other->items[j].box, &sends.items[i].box);
            }
            assert_int_equal(found, 1);
        }
        sent += sends.count;
        received += receives[rank].count;
        weft_transfers_free(&sends);
    }
    assert_int_equal(sent, received);
}

/* All ranks in one image; adds what each has received. */
static void check_image(const windows_case *c, int64_t received[])
{
    weft_transfers receives[MAX_WORLD] = { { 0 } };
    for (int rank = 0; rank < c->world_size; rank++) {
        assert_int_equal(weft_stage_receives(&c->stage, &c->world.topology, rank, &receives[rank]), WEFT_OK);
        if (weft_mesh_index_of(c->mesh, rank) >= 0) {
            received[rank] += check_receives(c, rank, &receives[rank]);
        } else {
            assert_int_equal(receives[rank].count, 0);
        }
    }
    check_sends(c, receives);
    for (int rank = 0; rank < c->world_size; rank++) {
        weft_transfers_free(&receives[rank]);
    }
}

/* Each of a rank's indices is in one of the images, also where one of the source's is in several. */
static void check_images(windows_case *c)
{
    int64_t received[MAX_WORLD] = { 0 };
    int images = 0;
    weft_access_map_first_image(&c->access_map);
    do {
        check_image(c, received);
    } while (weft_access_map_next_image(&c->access_map) && ++images < 200);
    for (int rank = 0; rank < c->world_size && images < 200; rank++) {
        weft_box box = { .extent = { 0 } };
        if (weft_mesh_index_of(c->mesh, rank) >= 0) {
            weft_access_map_rank_box(&c->access_map, rank, &box);
            assert_int_equal(received[rank], weft_box_count(c->ndim, &box));
        }
    }
}

static void test_random_windows(void **state)
{
    (void)state;
    int cases = cases_to_run(3000);
    prng random = prng_start(31);
    weft_panel_policy policy = WEFT_PANEL_POLICY_DEFAULT;
    for (int i = 0; i < cases; i++) {
        windows_case c;
        weft_layout_table *table = weft_layout_table_new(policy);
        make_case(&random, table, &c);
        check_images(&c);
        weft_layout_table_delete(table);
        weft_mesh_delete(c.mesh);
    }
}

/* Rows of a convolution of three taps with padding 1, over two ranks: each needs one row of the other. */
static void test_halo(void **state)
{
    fixture *f = *state;
    int64_t two[] = { 2 }, shape[] = { 1, 6 }, room[] = { 1, 10 };
    const weft_mesh_impl *m = mesh(f, 1, two);
    const weft_layout *from = layout_of(f->table, m, "S1", 2, shape, WEFT_F32);
    weft_access_map access_map = { .cut = from, .has = { false, true }, .of = { [1] = { 6, 1, 1, 1, 1, 0 } } };
    assert_int_equal(weft_access_map_largest(&access_map, 1), 5);
    weft_stage stage = {
        .from = from, .to = layout_of(f->table, m, "S1", 2, room, WEFT_F32), .access_map = &access_map, .scale = 1.0
    };
    weft_topology topology = one_rank_each(m);
    weft_transfers moves = { 0 };
    assert_int_equal(weft_stage_receives(&stage, &topology, 1, &moves), WEFT_OK);
    assert_int_equal(moves.count, 2);
    assert_int_equal(moves.items[0].peer, 0);
    assert_int_equal(moves.items[0].box.offset[1], 2);
    assert_int_equal(moves.items[0].box.extent[1], 1);
    assert_int_equal(moves.items[1].peer, 1);
    assert_int_equal(moves.items[1].box.extent[1], 3);
    int64_t shift[2];
    weft_stage_shift(&stage, 1, shift);
    assert_int_equal(shift[1], 5 - 2);
    weft_transfers_free(&moves);
}

/* Five rows over three ranks, 2 + 2 + 1, one turn: each rank gets the part of the next one, whole. */
static void test_ring(void **state)
{
    fixture *f = *state;
    int64_t three[] = { 3 }, shape[] = { 1, 5 }, room[] = { 1, 6 };
    const weft_mesh_impl *m = mesh(f, 1, three);
    const weft_layout *from = layout_of(f->table, m, "S1", 2, shape, WEFT_F32);
    weft_access_map access_map = { .cut = from,
                             .has = { false, true },
                             .of = { [1] = { .size = 5, .times = 1, .over = 1 } },
                             .turn = { 1 } };
    assert_int_equal(weft_access_map_largest(&access_map, 1), 2);
    weft_stage stage = {
        .from = from, .to = layout_of(f->table, m, "S1", 2, room, WEFT_F32), .access_map = &access_map, .scale = 1.0
    };
    weft_topology topology = one_rank_each(m);
    for (int rank = 0; rank < 3; rank++) {
        weft_transfers receives = { 0 }, sends = { 0 };
        weft_box own;
        assert_int_equal(weft_stage_receives(&stage, &topology, rank, &receives), WEFT_OK);
        assert_int_equal(weft_stage_sends(&stage, &topology, rank, &sends), WEFT_OK);
        assert_true(receives.count == 1 && sends.count == 1);
        assert_int_equal(receives.items[0].peer, (rank + 1) % 3);
        assert_int_equal(sends.items[0].peer, (rank + 2) % 3);
        assert_true(weft_layout_shard_box(from, rank, &own));
        assert_true(weft_box_equal(2, &sends.items[0].box, &own));
        weft_transfers_free(&receives);
        weft_transfers_free(&sends);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_windows),
        cmocka_unit_test_setup_teardown(test_halo, fixture_new, fixture_free),
        cmocka_unit_test_setup_teardown(test_ring, fixture_new, fixture_free),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
