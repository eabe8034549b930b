/* src/plan: a plan is no dearer than two plans by way of another layout, but that more bytes must save 2 % of the time. */
#include "plan_support.h"

#include <stdio.h>

/* Layouts by chunks and copies of a matrix or a vector on a mesh of three dimensions; of some also the one that cuts from right to
 * left. */
enum { LAYOUTS = 40 };

typedef struct ways {
    int count;
    const weft_layout *layouts[LAYOUTS];
    double us[LAYOUTS][LAYOUTS];
} ways;

static void add_layout(fixture *f, const weft_mesh_impl *m, int ndim, const int64_t shape[], const char *text, ways *w)
{
    const weft_layout *layout = layout_of(f->table, m, text, ndim, shape, WEFT_F32);
    for (int i = 0; i < w->count; i++) {
        if (w->layouts[i] == layout) {
            return;
        }
    }
    assert_true(w->count < LAYOUTS);
    w->layouts[w->count++] = layout;
}

static void find_all(fixture *f, const weft_mesh_impl *m, int ndim, const int64_t shape[], ways *w)
{
    static const char *const one[] = { "R", "S0", "S1" };
    static const char *const turned[] = { "S0@1,S0,R", "S0@1,R,S0", "R,S0@1,S0", "S0@2,S0@1,S0", "S0@1,S0@2,S0", "S0@1,S0,S0@2" };
    weft_topology topology = one_rank_each(m);
    int placements = ndim + 1;
    w->count = 0;
    for (int i = 0; i < placements * placements * placements; i++) {
        char text[20];
        snprintf(text, sizeof(text), "%s,%s,%s", one[i / placements / placements], one[i / placements % placements], one[i % placements]);
        add_layout(f, m, ndim, shape, text, w);
    }
    for (size_t i = 0; i < sizeof(turned) / sizeof(turned[0]); i++) {
        add_layout(f, m, ndim, shape, turned[i], w);
    }
    for (int i = 0; i < w->count; i++) {
        for (int j = 0; j < w->count; j++) {
            w->us[i][j] = weft_plan_cost(f->table, &topology, &f->cost, w->layouts[i], w->layouts[j]);
        }
    }
}

/* The cost of the best way from i to j by another layout, and that layout. */
static double by_another(const ways *w, int i, int j, int *other)
{
    double least = w->us[i][0] + w->us[0][j];
    *other = 0;
    for (int k = 1; k < w->count; k++) {
        double both = w->us[i][k] + w->us[k][j];
        *other = both < least ? k : *other;
        least = both < least ? both : least;
    }
    return least;
}

static void no_way_is_cheaper(void **state)
{
    fixture *f = *state;
    const double accuracy = 0.98; /* weft_chain_is_better() */
    static const int64_t meshes[][3] = { { 2, 2, 2 }, { 4, 2, 3 }, { 8, 8, 1 }, { 4, 4, 4 } };
    static const int64_t shapes[][2] = { { 8, 8 }, { 64, 64 }, { 1024, 1024 }, { 1000, 77 }, { 5, 3 }, { 1048576, 0 }, { 1000, 0 } };
    for (size_t n = 0; n < 28; n += (size_t)test_share()) {
        static ways w;
        const weft_mesh_impl *m = mesh(f, 3, meshes[n / 7]);
        weft_topology topology = one_rank_each(m);
        find_all(f, m, shapes[n % 7][1] == 0 ? 1 : 2, shapes[n % 7], &w);
        for (int i = 0; i < w.count; i++) {
            for (int j = 0; j < w.count; j++) {
                int other;
                double least = by_another(&w, i, j, &other);
                if (w.us[i][j] * accuracy > least + 1e-6) {
                    char text[160];
                    fail_msg("%s: %.1f us, by way of %s %.1f", describe_plan(w.layouts[i], w.layouts[j], &topology), w.us[i][j],
                             weft_layout_format(w.layouts[other], text, sizeof(text)), least);
                }
            }
        }
    }
}

/* A rank of [R,S0,S0] sends half of what two ranks of [S0,S0,S0] need of its rows, instead of every second one all of it: the busiest
 * one sends no more than it must receive. */
static void replicas_share_the_sends(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 3, (int64_t[]){ 2, 2, 2 });
    static const char *const pairs[][2] = { { "R,S0,S0", "S0,S0,S0" }, { "S0,S0,R", "R,R,S0" }, { "S0,R,S1", "S1,S0,R" } };
    weft_topology topology = one_rank_each(m);
    for (size_t i = 0; i < 3; i++) {
        weft_plan plan = plan_between(f, m, 2, (int64_t[]){ 1024, 1024 }, pairs[i][0], pairs[i][1]);
        weft_plan_statistics s;
        assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
        assert_int_equal(s.bytes_in_max, s.lower_bound_bytes_in_max);
        assert_true(s.bytes_out_max <= s.bytes_in_max);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(no_way_is_cheaper, fixture_new, fixture_free),
                                        cmocka_unit_test_setup_teardown(replicas_share_the_sends, fixture_new, fixture_free) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
