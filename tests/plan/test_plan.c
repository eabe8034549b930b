/* src/plan: plans of random layouts, simulated on plain arrays and compared with the dense answer; every
 * receive and send compared with brute force; statistics with counts. WEFT_TEST_CASES gives the number of
 * cases. */
#include "plan_reference.h"
#include "reduce.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plan/traffic.h"

/* ---- a stage, checked and simulated -------------------------------------------------------------------- */

/* The shards of a layout: `elements[rank]`, row-major; NULL: empty. */
typedef struct holding {
    double *elements[MAX_WORLD];
} holding;

static holding holding_new(const weft_layout *layout, int num_ranks)
{
    holding h = { { NULL } };
    for (int rank = 0; rank < num_ranks; rank++) {
        int64_t count = weft_layout_shard_count(layout, rank);
        h.elements[rank] = count == 0 ? NULL : malloc((size_t)count * sizeof(double));
        for (int64_t i = 0; i < count; i++) {
            h.elements[rank][i] = NAN;
        }
    }
    return h;
}

static void holding_free(holding *h)
{
    for (int rank = 0; rank < MAX_WORLD; rank++) {
        free(h->elements[rank]);
    }
}

/* Where an element of the global tensor lies in a rank's shard. Asserts that it does. */
static double *element_at(const holding *h, const weft_layout *layout, int rank, const int64_t element[])
{
    weft_box box;
    assert_true(weft_layout_shard_box(layout, rank, &box));
    int64_t inside[WEFT_MAX_DIMS];
    for (int d = 0; d < layout->ndim; d++) {
        inside[d] = element[d] - box.offset[d];
        assert_true(inside[d] >= 0 && inside[d] < box.extent[d]);
    }
    return &h->elements[rank][element_number(layout->ndim, box.extent, inside)];
}

/* The number of a source rank among the addends: row-major along the dimensions that the stage reduces. */
static int64_t addend_number(const weft_stage *stage, int rank)
{
    const weft_mesh_impl *mesh = stage->from->mesh;
    int64_t coordinate[WEFT_MAX_DIMS], number = 0;
    weft_mesh_unravel(mesh, weft_mesh_index_of(mesh, rank), coordinate);
    for (int m = 0; m < mesh->ndim; m++) {
        number = role_of(stage, m) == REDUCES ? number * mesh->shape[m] + coordinate[m] : number;
    }
    return number;
}

static int64_t num_addends(const weft_stage *stage)
{
    int64_t number = 1;
    for (int m = 0; m < stage->from->mesh->ndim; m++) {
        number *= role_of(stage, m) == REDUCES ? stage->from->mesh->shape[m] : 1;
    }
    return number;
}

/* Executes the receives of one rank; asserts that each element is written once and that addends come in
 * order. */
static void apply_receives(const weft_stage *stage, int target, const weft_transfers *moves,
                           const holding *before, const holding *after)
{
    int ndim = stage->from->ndim;
    int64_t addends = num_addends(stage);
    assert_true(stage->reduces || addends == 1);
    assert_int_equal(moves->count % (size_t)addends, 0);
    for (size_t i = 0; i < moves->count; i++) {
        const weft_transfer *move = &moves->items[i];
        int64_t number = (int64_t)i % addends;
        assert_int_equal(addend_number(stage, move->peer), number);
        assert_int_equal(weft_stage_addend(stage, move->peer), number);
        assert_true(number == 0 || weft_box_equal(ndim, &move->box, &moves->items[i - 1].box));
        assert_true(weft_box_count(ndim, &move->box) > 0);
        int64_t element[WEFT_MAX_DIMS];
        memcpy(element, move->box.offset, sizeof(element));
        do {
            double value = move->forwarded ? *element_at(after, stage->to, move->peer, element)
                                         : *element_at(before, stage->from, move->peer, element);
            assert_false(isnan(value)); /* forwarded elements have been received */
            double *out = element_at(after, stage->to, target, element);
            assert_true(number == 0 ? isnan(*out) : !isnan(*out));
            *out = number == 0 ? value : reduce_two(stage->op, *out, value);
            *out *= stage->reduces && number == addends - 1 ? stage->scale : 1.0;
        } while (next_element(ndim, &move->box, element));
    }
    for (int64_t i = 0; i < weft_layout_shard_count(stage->to, target); i++) {
        assert_false(isnan(after->elements[target][i]));
    }
}

/* Bytes and messages of each rank, between ranks. */
typedef struct traffic {
    int64_t in[MAX_WORLD], out[MAX_WORLD], messages_in[MAX_WORLD], messages_out[MAX_WORLD];
} traffic;

static void count_traffic(const weft_stage *stage, const weft_vec *transfers, traffic *t)
{
    for (size_t i = 0; i < transfers->count; i++) {
        const transfer *one = (const transfer *)transfers->items + i;
        int64_t bytes =
            weft_box_count(stage->from->ndim, &one->box) * (int64_t)weft_dtype_size(stage->from->dtype);
        if (one->source != one->target) {
            t->in[one->target] += bytes;
            t->out[one->source] += bytes;
            t->messages_in[one->target]++;
            t->messages_out[one->source]++;
        }
    }
}

static void check_totals(const weft_stage *stage, const weft_topology *topology, const traffic *counted)
{
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        weft_traffic total = weft_stage_traffic(stage, rank);
        assert_int_equal(total.bytes_in, counted->in[rank]);
        assert_int_equal(total.messages_in, counted->messages_in[rank]);
        if (weft_stage_traffic_exact(stage, topology)) {
            assert_int_equal(total.bytes_out, counted->out[rank]);
            assert_int_equal(total.messages_out, counted->messages_out[rank]);
        }
    }
}

/* Number of transfers of a part into a process, and of forwarding by a rank: one, with a tree. Replicas of
 * the source and addends that stay are roots of their own, and ranks in no order may belong to any process. */
static void check_forwarding(const weft_stage *stage, const weft_topology *topology, const weft_vec *received)
{
    const transfer *all = received->items;
    bool replicas = false;
    for (int m = 0; m < stage->from->mesh->ndim; m++) {
        replicas = replicas || role_of(stage, m) == REPLICATES || role_of(stage, m) == KEEPS;
    }
    for (size_t i = 0; i < received->count && !replicas; i++) {
        int entries = 0, copies = 0, process = weft_topology_process_of(topology, all[i].target);
        for (size_t k = 0; k < received->count; k++) {
            bool same =
                all[k].source != all[k].target && weft_box_equal(stage->from->ndim, &all[i].box, &all[k].box);
            entries += same && weft_topology_process_of(topology, all[k].target) == process &&
                       weft_topology_process_of(topology, all[k].source) != process;
            copies += same && all[k].source == all[i].source;
        }
        assert_true(stage->algorithm == WEFT_DIRECT || !stage->to->mesh->ascending || entries <= 1);
        assert_true(stage->algorithm != WEFT_CHAIN || copies <= 1);
    }
}

/* Checks the stage's receives and sends, executes them, adds to the traffic, and returns the new shards.
 * Ranks come in the order of the destination mesh: a forwarding rank has received everything before. */
static holding run_stage(const weft_stage *stage, const weft_topology *topology, const holding *before,
                         traffic *all)
{
    int num_ranks = topology->num_ranks, ndim = stage->from->ndim;
    weft_vec expected = { 0 }, received = { 0 }, sent = { 0 };
    holding after = holding_new(stage->to, num_ranks);
    for (int i = 0; i < stage->to->mesh->num_ranks; i++) {
        weft_transfers moves = { 0 };
        int rank = weft_mesh_rank_at(stage->to->mesh, i);
        assert_int_equal(weft_stage_receives(stage, topology, rank, &moves), WEFT_OK);
        for (size_t k = 0; k < moves.count; k++) {
            add_transfer(&received, ndim, moves.items[k].peer, rank, moves.items[k].forwarded,
                         &moves.items[k].box);
        }
        apply_receives(stage, rank, &moves, before, &after);
        weft_transfers_free(&moves);
        add_expected(&expected, stage, topology, rank);
    }
    for (int rank = 0; rank < num_ranks; rank++) {
        weft_transfers moves = { 0 };
        assert_int_equal(weft_stage_sends(stage, topology, rank, &moves), WEFT_OK);
        for (size_t k = 0; k < moves.count; k++) {
            add_transfer(&sent, ndim, rank, moves.items[k].peer, moves.items[k].forwarded, &moves.items[k].box);
        }
        moves.count = 0;
        assert_int_equal(weft_stage_receives(stage, topology, rank, &moves), WEFT_OK);
        assert_true(moves.count == 0 || weft_mesh_index_of(stage->to->mesh, rank) >= 0);
        weft_transfers_free(&moves);
    }
    if (stage->algorithm == WEFT_DIRECT) {
        assert_same_transfers(&expected, &received, "receives");
    }
    assert_int_equal(expected.count, received.count);
    assert_same_transfers(&received, &sent, "sends");
    check_forwarding(stage, topology, &received);
    traffic here = { { 0 } };
    count_traffic(stage, &received, &here);
    check_totals(stage, topology, &here);
    count_traffic(stage, &received, all);
    weft_vec_free(&expected);
    weft_vec_free(&received);
    weft_vec_free(&sent);
    return after;
}

/* ---- the dense answer ---------------------------------------------------------------------------------- */

static bool has_op(const weft_layout *layout, weft_reduce_op op)
{
    for (int m = 0; m < layout->mesh->ndim; m++) {
        if (layout->placements[m].kind == WEFT_PARTIAL && layout->placements[m].op == op) {
            return true;
        }
    }
    return false;
}

/* The addend of an element at a place: depends on the coordinates along the Partial dimensions alone.
 * Whole numbers, small enough that all reductions of up to 144 of them are exact. */
static double addend(const weft_layout *layout, const int64_t coordinate[], int64_t element)
{
    uint64_t key = weft_hash_u64((uint64_t)element + 1);
    for (int m = 0; m < layout->mesh->ndim; m++) {
        key = layout->placements[m].kind == WEFT_PARTIAL ? weft_hash_u64(key * 31 + (uint64_t)coordinate[m])
                                                         : key;
    }
    if (has_op(layout, WEFT_PROD)) {
        return (const double[]){ -2, -1, 1, 2 }[key % 4];
    }
    return (double)(int64_t)(key % 2001) - 1000;
}

/* The element's value at a place after the reductions of the Partial dimensions that are not kept: nested,
 * the last mesh dimension innermost. */
static double reduced(const weft_layout *layout, const bool kept[], int m, int64_t coordinate[],
                      int64_t element)
{
    if (m == layout->mesh->ndim) {
        return addend(layout, coordinate, element);
    }
    if (layout->placements[m].kind != WEFT_PARTIAL || kept[m]) {
        return reduced(layout, kept, m + 1, coordinate, element);
    }
    double value = 0;
    int64_t size = layout->mesh->shape[m];
    for (int64_t c = 0; c < size; c++) {
        coordinate[m] = c;
        double one = reduced(layout, kept, m + 1, coordinate, element);
        value = c == 0 ? one : reduce_two(layout->placements[m].op, value, one);
    }
    return layout->placements[m].op == WEFT_AVG ? value / (double)size : value;
}

/* Averages alone may round. */
static bool close_enough(const weft_layout *layout, double value, double expected)
{
    double slack = has_op(layout, WEFT_AVG) ? 1e-9 * fmax(1.0, fabs(expected)) : 0.0;
    return fabs(value - expected) <= slack;
}

/* The shards of a layout, with values of `source` reduced along the dimensions that are not kept. */
static holding holding_of(const weft_layout *layout, const weft_layout *source, const bool kept[],
                          int num_ranks)
{
    holding h = holding_new(layout, num_ranks);
    for (int rank = 0; rank < num_ranks; rank++) {
        weft_box box;
        if (h.elements[rank] == NULL) {
            continue;
        }
        weft_layout_shard_box(layout, rank, &box);
        int64_t coordinate[WEFT_MAX_DIMS] = { 0 }, element[WEFT_MAX_DIMS], i = 0;
        memcpy(element, box.offset, sizeof(element));
        do {
            if (layout->mesh == source->mesh) {
                weft_mesh_unravel(layout->mesh, weft_mesh_index_of(layout->mesh, rank), coordinate);
            }
            int64_t number = element_number(layout->ndim, layout->shape, element);
            h.elements[rank][i++] = reduced(source, kept, 0, coordinate, number);
        } while (next_element(layout->ndim, &box, element));
    }
    return h;
}

/* ---- random cases -------------------------------------------------------------------------------------- */

typedef struct scene {
    placed_world world;
    weft_cost_model cost;
    weft_layout_table *table;
    weft_mesh_impl *meshes[2];
    const weft_layout *from, *to;
} scene;

/* Costs for which another algorithm is the cheapest: as measured, only bytes, only messages, only stages. */
static weft_cost_model random_cost(prng *random)
{
    static const weft_cost_model models[] = {
        WEFT_COST_MODEL_DEFAULT,
        { 0, 0, 1, 0, 0, 1, WEFT_ALGORITHM_AUTO },
        { 0, 1, 1e-6, 0, 1, 1e-6, WEFT_ALGORITHM_AUTO },
        { 1, 1e-6, 1e-6, 1, 1e-6, 1e-6, WEFT_ALGORITHM_AUTO },
    };
    weft_cost_model model = models[prng_below(random, (int64_t)WEFT_ARRAY_SIZE(models))];
    if (prng_below(random, 2) == 0) {
        model.algorithm = (weft_algorithm)prng_below(random, WEFT_ALGORITHM_AUTO);
    }
    return model;
}

/* How large cases are: ranks of the world, and of a mesh, and elements. */
typedef struct scale {
    int world, ranks;
    int64_t elements;
} scale;

/* Every third time to another mesh. */
static void scene_make(prng *random, scene *s, scale most)
{
    int world = 1 + (int)prng_below(random, most.world);
    random_topology(random, world, &s->world);
    s->cost = random_cost(random);
    s->table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    s->meshes[0] = drawn_mesh(random, world, most.ranks);
    s->meshes[1] = prng_below(random, 3) == 0 ? drawn_mesh(random, world, most.ranks) : NULL;
    const weft_mesh_impl *target = s->meshes[1] != NULL ? s->meshes[1] : s->meshes[0];
    int64_t shape[WEFT_MAX_DIMS];
    int ndim = drawn_shape(random, 4, 17 + most.ranks, most.elements, shape);
    weft_placement from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
    drawn_placements(random, s->meshes[0], ndim, true, from);
    drawn_placements(random, target, ndim, false, to);
    drawn_sizes(random, s->meshes[0], ndim, shape, from);
    drawn_sizes(random, target, ndim, shape, to);
    for (int m = 0; m < target->ndim && target == s->meshes[0]; m++) {
        /* Some dimensions stay, Partial ones among them. */
        to[m] = prng_below(random, 5) == 0 ? from[m] : to[m];
    }
    s->from = weft_layout_intern(s->table, s->meshes[0], from, ndim, shape, WEFT_F64);
    s->to = weft_layout_intern(s->table, target, to, ndim, shape, WEFT_F64);
}

static void scene_free(scene *s)
{
    weft_mesh_delete(s->meshes[0]);
    weft_mesh_delete(s->meshes[1]);
    weft_layout_table_delete(s->table);
}

static bool is_additive(weft_reduce_op op)
{
    return op == WEFT_SUM || op == WEFT_AVG;
}

/* A Partial dimension that stays inside one of another operation that is reduced: its reduction would have
 * to come first. */
static bool must_be_refused(const weft_layout *from, const weft_layout *to)
{
    for (int m = 0; m < to->mesh->ndim; m++) {
        for (int outer = 0; outer < m && to->placements[m].kind == WEFT_PARTIAL; outer++) {
            weft_reduce_op a = from->placements[outer].op, b = from->placements[m].op;
            bool agree = a == b || (is_additive(a) && is_additive(b));
            if (from->placements[outer].kind == WEFT_PARTIAL && to->placements[outer].kind != WEFT_PARTIAL &&
                !agree) {
                return true;
            }
        }
    }
    return false;
}

/* Equal, or equal on another mesh of the same ranks in the same order: every rank has the same box and
 * panels. */
static bool is_equivalent(const weft_layout *a, const weft_layout *b)
{
    if (a->mesh == b->mesh) {
        return a == b;
    }
    bool same = a->mesh->num_ranks == b->mesh->num_ranks && a->dtype == b->dtype && a->ndim == b->ndim;
    for (int64_t i = 0; same && i < a->mesh->num_ranks; i++) {
        weft_box p = reference_box(a, i), q = reference_box(b, i);
        bool empty = weft_box_count(a->ndim, &p) == 0;
        same = weft_mesh_rank_at(a->mesh, i) == weft_mesh_rank_at(b->mesh, i) &&
               (empty ? weft_box_count(b->ndim, &q) == 0 : weft_box_equal(a->ndim, &p, &q)) &&
               a->panel_rows == b->panel_rows;
    }
    return same;
}

/* Stages follow each other; each changes something; Partial placements only go. */
static void check_stages(const weft_plan *plan)
{
    const weft_layout *current = plan->from;
    assert_true(plan->num_stages <= WEFT_MAX_STAGES);
    for (int i = 0; i < plan->num_stages; i++) {
        const weft_stage *stage = &plan->stages[i];
        assert_true(is_equivalent(stage->from, current));
        current = stage->from;
        assert_ptr_not_equal(stage->to, current);
        bool reduces = false;
        for (int m = 0; m < current->mesh->ndim; m++) {
            reduces = reduces || role_of(stage, m) == REDUCES;
        }
        assert_int_equal(stage->reduces, reduces);
        assert_true(!stage->reduces || stage->op != WEFT_AVG);
        current = stage->to;
    }
    assert_true(is_equivalent(current, plan->to));
    assert_true((plan->num_stages == 0) == (plan->from == plan->to));
    assert_non_null(plan->algorithm);
}

static void check_statistics(const weft_plan *plan, const weft_topology *topology, const traffic *counted)
{
    weft_plan_statistics s;
    assert_int_equal(weft_plan_measure(plan, topology, &s), WEFT_OK);
    int64_t total = 0, in = 0, out = 0, messages = 0;
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        total += counted->in[rank];
        in = weft_max_i64(in, counted->in[rank]);
        out = weft_max_i64(out, counted->out[rank]);
        messages =
            weft_max_i64(messages, weft_max_i64(counted->messages_in[rank], counted->messages_out[rank]));
    }
    assert_true(s.exact);
    assert_int_equal(s.ranks, topology->num_ranks);
    assert_int_equal(s.bytes_total, total);
    assert_int_equal(s.bytes_in_max, in);
    assert_int_equal(s.bytes_out_max, out);
    assert_int_equal(s.messages_max, messages);
    assert_true(s.lower_bound_bytes_in_max <= s.bytes_in_max);
    int64_t missing = 0;
    for (int rank = 0; rank < topology->num_ranks; rank++) {
        missing = weft_max_i64(missing, weft_missing_bytes(plan->from, plan->to, rank));
    }
    if (!plan->from->has_partial) {
        assert_int_equal(s.lower_bound_bytes_in_max, missing);
        assert_true(plan->num_stages > 1 || s.bytes_in_max == missing);
    }
}

/* How often which number of stages came out; the last entry: refused. */
typedef struct tally {
    int64_t stages[WEFT_MAX_STAGES + 2];
    int64_t algorithms[WEFT_ALGORITHM_AUTO];
} tally;

static void assert_holds(const scene *s, const holding *held, const holding *expected)
{
    for (int rank = 0; rank < s->world.topology.num_ranks; rank++) {
        for (int64_t i = 0; i < weft_layout_shard_count(s->to, rank); i++) {
            double value = held->elements[rank][i], wanted = expected->elements[rank][i];
            if (!close_enough(s->from, value, wanted)) {
                fail_msg("rank %d, element %lld: %g instead of %g", rank, (long long)i, value, wanted);
            }
        }
    }
}

static void run_plan(const scene *s, const weft_plan *plan)
{
    const weft_topology *topology = &s->world.topology;
    bool all[WEFT_MAX_DIMS], kept[WEFT_MAX_DIMS];
    for (int m = 0; m < WEFT_MAX_DIMS; m++) {
        all[m] = true;
        kept[m] = s->from->mesh == s->to->mesh && m < s->to->mesh->ndim &&
                  s->to->placements[m].kind == WEFT_PARTIAL;
    }
    traffic counted = { { 0 } };
    holding held = holding_of(s->from, s->from, all, topology->num_ranks);
    for (int i = 0; i < plan->num_stages; i++) {
        holding next = run_stage(&plan->stages[i], topology, &held, &counted);
        holding_free(&held);
        held = next;
    }
    holding expected = holding_of(s->to, s->from, kept, topology->num_ranks);
    assert_holds(s, &held, &expected);
    holding_free(&held);
    holding_free(&expected);
    check_statistics(plan, topology, &counted);
}

static void run_case(const scene *s, tally *t)
{
    weft_plan plan;
    char why[200] = "";
    const weft_topology *topology = &s->world.topology;
    weft_status status =
        weft_plan_make(s->table, topology, &s->cost, s->from, s->to, &plan, why, sizeof(why));
    double cost = weft_plan_cost(s->table, topology, &s->cost, s->from, s->to);
    if (s->from->mesh == s->to->mesh && must_be_refused(s->from, s->to)) {
        assert_int_equal(status, WEFT_ERR_LAYOUT);
        assert_true(cost < 0 && why[0] != '\0');
        t->stages[WEFT_MAX_STAGES + 1]++;
        return;
    }
    assert_int_equal(status, WEFT_OK);
    assert_true(cost >= 0 && !(cost < plan.predicted_us) && !(cost > plan.predicted_us));
    assert_true(s->from != s->to || !(cost > 0));
    check_stages(&plan);
    run_plan(s, &plan);
    t->stages[plan.num_stages]++;
    for (int i = 0; i < plan.num_stages; i++) {
        t->algorithms[plan.stages[i].algorithm]++;
    }
}

/* cmocka leaves a test that fails at once: the case is printed before, and lost when it passes. */
static char current_case[8 * MAX_WORLD + 900];

static int print_case(void **state)
{
    (void)state;
    if (current_case[0] != '\0') {
        print_error("last case: %s\n", current_case);
        current_case[0] = '\0';
    }
    return 0;
}

static void run_cases(uint64_t first_seed, int64_t cases, scale most)
{
    prng random = prng_start(first_seed);
    tally t = { { 0 } };
    for (int64_t i = 0; i < cases; i++) {
        uint64_t seed = random.state;
        scene s;
        scene_make(&random, &s, most);
        snprintf(current_case, sizeof(current_case), "WEFT_TEST_SEED=%llu: %s", (unsigned long long)seed,
                 describe_plan(s.from, s.to, &s.world.topology));
        run_case(&s, &t);
        current_case[0] = '\0';
        scene_free(&s);
    }
    print_message("%lld cases, %lld of them refused; by number of stages:", (long long)cases,
                  (long long)t.stages[WEFT_MAX_STAGES + 1]);
    for (int i = 0; i <= 8; i++) {
        print_message(" %lld", (long long)t.stages[i]);
    }
    for (weft_algorithm a = WEFT_DIRECT; a < WEFT_ALGORITHM_AUTO; a++) {
        print_message("%s %s %lld", a > 0 ? "," : ";", weft_algorithm_name(a), (long long)t.algorithms[a]);
        assert_true(cases < 1000 || t.algorithms[a] > 0);
    }
    print_message("\n");
}

static void random_plans_give_the_dense_answer(void **state)
{
    (void)state;
    run_cases(21, cases_to_run(20000), (scale){ 16, 12, 400 });
}

/* Dimensions that are worth splitting. */
static void random_plans_of_more_ranks_give_the_dense_answer(void **state)
{
    (void)state;
    run_cases(22, cases_to_run(20000) / 10, (scale){ 40, 36, 600 });
}

/* More addends than are reduced at once. */
static void random_plans_of_many_ranks_give_the_dense_answer(void **state)
{
    (void)state;
    run_cases(23, cases_to_run(20000) / 100, (scale){ MAX_WORLD, MAX_WORLD, 300 });
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(random_plans_give_the_dense_answer, print_case),
        cmocka_unit_test_teardown(random_plans_of_more_ranks_give_the_dense_answer, print_case),
        cmocka_unit_test_teardown(random_plans_of_many_ranks_give_the_dense_answer, print_case),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
