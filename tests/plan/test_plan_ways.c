/* src/plan: a plan is at most a little dearer than two plans by way of another layout. */
#include "plan_support.h"

#include <stdio.h>

/* All layouts by chunks and copies of a matrix on a mesh of three dimensions. */
enum { LAYOUTS = 27 };

typedef struct ways {
    const weft_layout *layouts[LAYOUTS];
    double us[LAYOUTS][LAYOUTS];
} ways;

static void find_all(fixture *f, const weft_mesh_impl *m, const int64_t shape[2], ways *w)
{
    static const char *const one[] = { "R", "S0", "S1" };
    weft_topology topology = one_rank_each(m);
    for (int i = 0; i < LAYOUTS; i++) {
        char text[20];
        snprintf(text, sizeof(text), "%s,%s,%s", one[i / 9], one[i / 3 % 3], one[i % 3]);
        w->layouts[i] = layout_of(f->table, m, text, 2, shape, WEFT_F32);
    }
    for (int i = 0; i < LAYOUTS; i++) {
        for (int j = 0; j < LAYOUTS; j++) {
            w->us[i][j] = weft_plan_cost(f->table, &topology, &f->cost, w->layouts[i], w->layouts[j]);
        }
    }
}

/* The cost of the best way from i to j by another layout, and that layout. */
static double by_another(const ways *w, int i, int j, int *other)
{
    double least = w->us[i][0] + w->us[0][j];
    *other = 0;
    for (int k = 1; k < LAYOUTS; k++) {
        double both = w->us[i][k] + w->us[k][j];
        *other = both < least ? k : *other;
        least = both < least ? both : least;
    }
    return least;
}

static void no_way_is_much_cheaper(void **state)
{
    fixture *f = *state;
    static const int64_t meshes[][3] = { { 2, 2, 2 }, { 4, 2, 3 }, { 2, 8, 1 }, { 4, 4, 4 } };
    static const int64_t shapes[][2] = { { 8, 8 }, { 64, 64 }, { 1024, 1024 }, { 1000, 77 }, { 5, 3 } };
    for (size_t n = 0; n < 20; n++) {
        static ways w;
        const weft_mesh_impl *m = mesh(f, 3, meshes[n / 5]);
        weft_topology topology = one_rank_each(m);
        double most = n / 5 == 0 ? 1.02 : 1.25;
        find_all(f, m, shapes[n % 5], &w);
        for (int i = 0; i < LAYOUTS; i++) {
            for (int j = 0; j < LAYOUTS; j++) {
                int other;
                double least = by_another(&w, i, j, &other);
                if (w.us[i][j] > most * least) {
                    char text[160];
                    fail_msg("%s: %.1f us, by way of %s %.1f", describe_plan(w.layouts[i], w.layouts[j], &topology), w.us[i][j],
                             weft_layout_format(w.layouts[other], text, sizeof(text)), least);
                }
            }
        }
    }
}

/* Each rank of [R,S0,S0] has half of its rows' columns to send to a rank of [S0,S0,S0]: no two ranks to one. */
static void replicas_share_the_sends(void **state)
{
    fixture *f = *state;
    const weft_mesh_impl *m = mesh(f, 3, (int64_t[]){ 2, 2, 2 });
    weft_plan plan = plan_between(f, m, 2, (int64_t[]){ 1024, 1024 }, "R,S0,S0", "S0,S0,S0");
    weft_topology topology = one_rank_each(m);
    weft_plan_statistics s;
    assert_int_equal(weft_plan_measure(&plan, &topology, &s), WEFT_OK);
    assert_int_equal(plan.num_stages, 2);
    assert_string_equal(plan.algorithm, "sliced");
    assert_int_equal(s.bytes_in_max, 1024 / 8 * 1024 * 4);
    assert_int_equal(s.bytes_out_max, s.bytes_in_max);
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test_setup_teardown(no_way_is_much_cheaper, fixture_new, fixture_free),
                                        cmocka_unit_test_setup_teardown(replicas_share_the_sends, fixture_new, fixture_free) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
