/* Sizes that change from call to call. Properties of relations on random numbers, and graphs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph_support.h"
#include "printed.h"
#include "graph/run/shapes.h"

/* ---- relations as text ---------------------------------------------------------------------------------------------- */

/* Three inputs of two dimensions. */
static const int first[] = { 0, 2, 4 };
enum { NUM_SIZES = 6 };

static void read(const char *text, weft_shape_relation *relation)
{
    char why[200];
    if (!weft_shape_read(text, relation, why, sizeof(why))) {
        fail_msg("%s: %s", text, why);
    }
}

/* A sum of products, its text, and its value. */
static int64_t random_sum(prng *random, const int64_t sizes[], char *text, size_t size)
{
    int64_t sum = 0;
    size_t used = 0;
    int terms = 1 + (int)prng_below(random, 3);
    for (int i = 0; i < terms; i++) {
        int64_t factor = (int64_t)prng_below(random, 4), product = factor;
        used += (size_t)snprintf(text + used, size - used, "%s%lld", i > 0 ? " + " : "", (long long)factor);
        for (int k = (int)prng_below(random, 3); k > 0; k--) {
            int at = (int)prng_below(random, NUM_SIZES);
            product *= sizes[at];
            used += (size_t)snprintf(text + used, size - used, "*i%d.%d", at / 2, at % 2);
        }
        sum += product;
    }
    return sum;
}

static bool compare(int64_t left, int64_t right, int comparison)
{
    return comparison == 0   ? left == right
           : comparison == 1 ? left != right
           : comparison == 2 ? left <= right
           : comparison == 3 ? left >= right
           : comparison == 4 ? left < right
                             : left > right;
}

static const char *const comparisons[] = { "==", "!=", "<=", ">=", "<", ">" };

static bool random_relation(prng *random, const int64_t sizes[], char text[400])
{
    char left[150], right[150];
    int64_t a = random_sum(random, sizes, left, sizeof(left)), b = random_sum(random, sizes, right, sizeof(right));
    if (prng_below(random, 3) == 0) {
        int divisor = 1 + (int)prng_below(random, 6), unequal = (int)prng_below(random, 2);
        snprintf(text, 400, "(%s) %% %d %s %s", left, divisor, comparisons[unequal], right);
        return ((a - b) % divisor == 0) != unequal;
    }
    int comparison = (int)prng_below(random, 6);
    snprintf(text, 400, "%s %s %s", left, comparisons[comparison], right);
    return compare(a, b, comparison);
}

static void random_sizes(prng *random, int64_t sizes[])
{
    for (int i = 0; i < NUM_SIZES; i++) {
        sizes[i] = (int64_t)prng_below(random, 8);
    }
}

static void test_f4_relations_mean_what_they_say(void **state)
{
    (void)state;
    int held = 0;
    for (uint64_t seed = 1; seed <= 3000; seed++) {
        prng random = { seed };
        char text[400];
        int64_t sizes[NUM_SIZES];
        random_sizes(&random, sizes);
        bool expected = random_relation(&random, sizes, text);
        weft_shape_relation relation;
        read(text, &relation);
        if (weft_shape_holds(&relation, sizes, first) != expected) {
            fail_msg("seed %llu: %s", (unsigned long long)seed, text);
        }
        held += expected;
    }
    assert_true(held > 500 && held < 2500);
}

/* Few sizes and small numbers, so that some imply others. */
static void small_relation(prng *random, char text[400])
{
    static const char *const sums[] = { "i0.0", "2*i0.0 + i1.0", "i0.0 - i1.0" };
    const char *sum = sums[prng_below(random, 3)];
    if (prng_below(random, 2) == 0) {
        snprintf(text, 400, "(%s) %% %d %s %d", sum, 1 + (int)prng_below(random, 6), comparisons[prng_below(random, 2)],
                 (int)prng_below(random, 4));
    } else {
        snprintf(text, 400, "%s %s %d", sum, comparisons[prng_below(random, 6)], (int)prng_below(random, 5));
    }
}

static void test_f4_implied_relations_follow(void **state)
{
    (void)state;
    int implied = 0;
    for (uint64_t seed = 1; seed <= 8000; seed++) {
        prng random = { seed };
        char one[400], other[400];
        weft_shape_relation a, b;
        small_relation(&random, one);
        small_relation(&random, other);
        read(one, &a);
        read(other, &b);
        assert_true(weft_shape_implies(&a, &a));
        if (!weft_shape_implies(&a, &b)) {
            continue;
        }
        implied++;
        for (int64_t x = 0; x < 15; x++) {
            for (int64_t y = 0; y < 15; y++) {
                int64_t sizes[NUM_SIZES] = { x, 0, y };
                if (weft_shape_holds(&a, sizes, first) && !weft_shape_holds(&b, sizes, first)) {
                    fail_msg("%s is said to imply %s, but not for %lld, %lld", one, other, (long long)x, (long long)y);
                }
            }
        }
    }
    assert_true(implied > 100);
}

static void test_f4_texts_that_cannot_be_read(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        { "", "a number is missing" },          { "i0.0", "a comparison is missing" },
        { "i0 == 1", "written iINPUT.DIM" },    { "i0.0 % 0 == 0", "after % is 0" },
        { "i0.0 % 2 < 1", "== or != is missing" }, { "i0.0 == 1 2", "the end is missing" },
        { "99999999999999999999 == i0.0", "too large" }, { "i0.0**5 == 1", "too many sizes" },    { "i0.0 + 1 % 2 == 0", "stands in parentheses" },
        { "(i0.0 == 1", "parenthesis is missing" },
        { "i0.0 == ", "a number is missing" },  { "i0.0 = 2", "a comparison is missing" },
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        weft_shape_relation relation;
        char why[200];
        assert_false(weft_shape_read(wrong[i][0], &relation, why, sizeof(why)));
        if (strstr(why, wrong[i][1]) == NULL) {
            fail_msg("\"%s\": %s", wrong[i][0], why);
        }
    }
    weft_shape_relation relation;
    read("i0.0*i0.0*i0.1 == 0", &relation);
    int64_t large[NUM_SIZES] = { INT64_MAX / 2, INT64_MAX / 2 };
    assert_false(weft_shape_holds(&relation, large, first));
}

/* ---- relations that have held ----------------------------------------------------------------------------------------- */

static void test_f4_linear_dependence_is_found(void **state)
{
    (void)state;
    static weft_shape_history history;
    for (uint64_t seed = 1; seed <= 500; seed++) {
        prng random = { seed };
        int64_t a = (int64_t)prng_below(&random, 5) - 1, b = (int64_t)prng_below(&random, 7), unit = 1 + (int64_t)prng_below(&random, 5);
        a = a == 0 ? 3 : a;
        history = (weft_shape_history){ .num_sizes = 0 };
        for (int64_t i = 0; i < 6; i++) {
            int64_t x = unit * (1 + (i * 5) % 7);
            weft_shape_note(&history, 4, (int64_t[]){ 9, x, a * x + b + 40, x });
        }
        int64_t found_a, found_b;
        assert_int_equal(weft_shape_symbol(&history, 0), -1);
        assert_int_equal(weft_shape_symbol(&history, 1), 0);
        assert_int_equal(weft_shape_symbol(&history, 2), 1);
        assert_int_equal(weft_shape_symbol(&history, 3), 0); /* always equal */
        assert_int_equal(weft_shape_line(&history, 2, &found_a, &found_b), 1);
        assert_true(found_a == a && found_b == b + 40);
        assert_int_equal(history.sizes[1].divisor % unit, 0);
        weft_shape_note(&history, 4, (int64_t[]){ 9, 100, a * 100 + b + 41, 101 }); /* not any more */
        assert_int_equal(weft_shape_line(&history, 2, &found_a, &found_b), -1);
        assert_int_equal(weft_shape_symbol(&history, 3), 2);
    }
    history = (weft_shape_history){ .num_sizes = 0 };
    int64_t a, b;
    weft_shape_note(&history, 2, (int64_t[]){ 1, 2 });
    weft_shape_note(&history, 2, (int64_t[]){ 2, 4 });
    weft_shape_note(&history, 2, (int64_t[]){ 1, 2 });
    assert_int_equal(weft_shape_line(&history, 1, &a, &b), -1); /* two points are on any line */
}

/* ---- graphs ------------------------------------------------------------------------------------------------------------- */

static weft_status scale_rows(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_add(weft_exp(inputs[0]), weft_exp(inputs[0]));
    outputs[1] = weft_neg(inputs[1]);
    return WEFT_OK;
}

static weft_status call_with(weft_graph *graph, int64_t rows, int64_t length)
{
    const weft_placement sharded = weft_shard(0);
    weft_scope_begin();
    weft_tensor *inputs[] = { weft_full(WEFT_F64, 1, 2, (int64_t[]){ rows, 3 }, line(), &sharded),
                              weft_full(WEFT_F64, 2, 1, (int64_t[]){ length }, line(), &sharded) };
    weft_tensor *outputs[2] = { NULL };
    weft_status status = weft_graph_call(graph, inputs, NULL, outputs);
    if (status == WEFT_OK) {
        assert_int_equal(weft_tensor_size(outputs[0], 0), rows);
        assert_same_shards(outputs[1], weft_neg(inputs[1]), "output");
    }
    weft_scope_end();
    return status;
}

static void test_f4_sizes_become_symbols(void **state)
{
    (void)state;
    char text[4000];
    weft_graph *graph = weft_graph_create("rows", scale_rows, NULL, 2, 0, 2);
    assert_int_equal(call_with(graph, 8, 17), WEFT_OK);
    PRINT_INTO(text, weft_graph_print(graph, WEFT_GRAPH_RECORDED, file));
    assert_null(strstr(text, "s0"));
    static const int64_t rows[] = { 4, 64, 12, 8 };
    for (int i = 0; i < 4; i++) {
        assert_int_equal(call_with(graph, rows[i], 2 * rows[i] + 1), WEFT_OK);
    }
    assert_int_equal(weft_graph_require(graph, "i0.0 % 4 == 0"), WEFT_OK);
    assert_int_equal(weft_graph_require(graph, "i0.0 % 2 == 0"), WEFT_OK); /* follows */
    assert_int_equal(weft_graph_require(graph, "i1.0 == 2*i0.0 + 1"), WEFT_OK);
    PRINT_INTO(text, weft_graph_print(graph, WEFT_GRAPH_RECORDED, file));
    static const char expected[] = "graph rows:\n"
                                   "  inputs[0] : f64[s0, 3]\n"
                                   "  inputs[1] : f64[s1]\n"
                                   "    s0 in 4..64, % 4 == 0, != 1\n"
                                   "    s1 in 9..129, == 2*s0 + 1, != 1\n"
                                   "    requires i0.0 % 4 == 0\n"
                                   "    requires i1.0 == 2*i0.0 + 1\n"
                                   "  %0 = inputs[0] : f64[8, 3] [S0]";
    if (strncmp(text, expected, strlen(expected)) != 0) {
        fail_msg("%s", text);
    }
    /* Run-time assertions. */
    weft_graph_info before = info_of(graph);
    assert_int_equal(call_with(graph, 6, 13), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "weft_graph_call: graph rows requires i0.0 % 4 == 0, i0.0 is 6");
    assert_int_equal(call_with(graph, 16, 34), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "graph rows requires i1.0 == 2*i0.0 + 1, i0.0 is 16, i1.0 is 34");
    assert_int_equal(info_of(graph).runs, before.runs);
    assert_int_equal(call_with(graph, 16, 33), WEFT_OK);
    assert_int_equal(weft_graph_omit_requirements(graph, true), WEFT_OK);
    assert_int_equal(call_with(graph, 6, 13), WEFT_OK);
    assert_int_equal(weft_graph_omit_requirements(graph, false), WEFT_OK);
    assert_int_equal(call_with(graph, 6, 13), WEFT_ERR_SHAPE);
    weft_clear_error();
    assert_int_equal(weft_graph_require(graph, "i0.2 == 1"), WEFT_OK);
    assert_int_equal(call_with(graph, 16, 33), WEFT_ERR_SHAPE);
    assert_error(WEFT_ERR_SHAPE, "requires i0.2 == 1, there is no i0.2");

    assert_int_equal(weft_graph_require(graph, "i2.0 == 1"), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_require: relation: i2 is no input: graph rows has 2");
    assert_int_equal(weft_graph_require(graph, "i0.0 == "), WEFT_ERR_INVALID);
    assert_error(WEFT_ERR_INVALID, "weft_graph_require: relation: a number is missing");
    assert_int_equal(weft_graph_require(graph, NULL), WEFT_ERR_INVALID);
    weft_clear_error();
    weft_graph_destroy(graph);
}

static void test_f4_symbols_of_a_thousand_shapes(void **state)
{
    (void)state;
    weft_graph *graph = weft_graph_create("rows", scale_rows, NULL, 2, 0, 2);
    for (int64_t rows = 1; rows <= 1000; rows++) {
        assert_int_equal(call_with(graph, rows, 1 + rows % 7), WEFT_OK);
    }
    char text[4000];
    PRINT_INTO(text, weft_graph_print(graph, WEFT_GRAPH_RECORDED, file));
    assert_non_null(strstr(text, "    s0 in 1..1000\n    s1 in 1..7\n"));
    weft_graph_destroy(graph);
    assert_no_error();
}

/* ---- relations that follow from the calls ------------------------------------------------------------------------------------ */

/* x of s0 x s1 is flattened, and added to y: s0*s1 == s2. */
static weft_status flatten(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    weft_graph *const *graph = context;
    int64_t flat;
    weft_status status = weft_graph_size(*graph, "i0.0*i0.1", &flat);
    outputs[0] = weft_add(weft_reshape(weft_exp(inputs[0]), 1, &flat), inputs[1]);
    return status;
}

/* Pairs of rows: s0 % 2 == 0. */
static weft_status pair_rows(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)context, (void)scalars;
    outputs[0] = weft_sum(weft_unflatten(inputs[0], 0, 2, (int64_t[]){ -1, 2 }), 1, false);
    return WEFT_OK;
}

/* Branches of the founding documents. */
static weft_status branches(void *context, weft_tensor *const inputs[], const double scalars[], weft_tensor *outputs[])
{
    (void)scalars;
    weft_graph *const *graph = context;
    bool cubic, divides;
    weft_status status = weft_graph_test(*graph, "i0.0 == i1.0**3", &cubic);
    status = status == WEFT_OK ? weft_graph_test(*graph, "i0.0*i1.0 % (i0.0 - 1) == 0", &divides) : status;
    outputs[0] = cubic ? weft_neg(inputs[0]) : divides ? weft_exp(inputs[0]) : weft_add_scalar(inputs[0], 1);
    return status;
}

static weft_tensor *ones_of(int ndim, int64_t rows, int64_t columns)
{
    const weft_placement split = weft_shard(0);
    return weft_full(WEFT_F64, 1, ndim, (int64_t[]){ rows, columns }, line(), &split);
}

static void call_on(weft_graph *graph, weft_tensor *one, weft_tensor *other)
{
    weft_tensor *inputs[] = { one, other }, *output;
    assert_int_equal(weft_graph_call(graph, inputs, NULL, &output), WEFT_OK);
}

static void assert_listed(const weft_graph *graph, const char *expected, bool listed)
{
    char *text = listing_of(graph);
    if ((strstr(text, expected) != NULL) != listed) {
        fail_msg("%s \"%s\":\n%s", listed ? "expected" : "did not expect", expected, text);
    }
    free(text);
}

static void test_f4_relations_follow_from_calls(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_graph *graph;
    graph = weft_graph_create("flatten", flatten, &graph, 2, 0, 1);
    call_on(graph, ones_of(2, 4, 3), ones_of(1, 12, 0));
    assert_listed(graph, " == ", false);
    call_on(graph, ones_of(2, 5, 6), ones_of(1, 30, 0));
    call_on(graph, ones_of(2, 7, 2), ones_of(1, 14, 0));
    assert_listed(graph, "    s0*s1 == s2, as weft_add needs it\n", true);
    weft_graph_destroy(graph);

    graph = weft_graph_create("pairs", pair_rows, NULL, 1, 0, 1);
    for (int64_t rows = 2; rows <= 16; rows *= 2) {
        weft_tensor *x = ones_of(2, rows, 3), *output;
        assert_int_equal(weft_graph_call(graph, &x, NULL, &output), WEFT_OK);
    }
    assert_listed(graph, "    s0 % 2 == 0, as weft_unflatten needs it\n", true);
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_f4_branches_leave_relations(void **state)
{
    (void)state;
    weft_scope_begin();
    weft_graph *graph;
    graph = weft_graph_create("branches", branches, &graph, 2, 0, 1);
    call_on(graph, ones_of(1, 27, 0), ones_of(1, 3, 0));
    assert_listed(graph, "    tested: i0.0 == i1.0**3\n", true);
    assert_listed(graph, "weft_neg(%0)", true);
    call_on(graph, ones_of(1, 9, 0), ones_of(1, 8, 0));
    assert_listed(graph, "    tested: i0.0 != i1.0**3\n    tested: i0.0*i1.0 % (i0.0 - 1) == 0\n", true);
    assert_listed(graph, "weft_exp(%0)", true);
    call_on(graph, ones_of(1, 9, 0), ones_of(1, 3, 0));
    assert_listed(graph, "    tested: i0.0*i1.0 % (i0.0 - 1) != 0\n", true);
    assert_int_equal(info_of(graph).templates, 3);
    call_on(graph, ones_of(1, 27, 0), ones_of(1, 3, 0));
    assert_listed(graph, "    tested: i0.0 == i1.0**3\n", true);
    assert_int_equal(info_of(graph).captures, 3);

    bool truth;
    int64_t size;
    assert_int_equal(weft_graph_test(graph, "i0.0 == 1", &truth), WEFT_ERR_STATE);
    assert_error(WEFT_ERR_STATE, "called outside of the function of graph branches");
    assert_int_equal(weft_graph_size(graph, "i0.0", &size), WEFT_ERR_STATE);
    weft_clear_error();
    weft_graph_destroy(graph);
    weft_scope_end();
    assert_no_error();
}

static void test_f4_expressions(void **state)
{
    (void)state;
    static const int counts[] = { 2, 1 };
    static const int64_t sizes[] = { 13, 4, 3 };
    static const int first_of[] = { 0, 2 };
    static const struct {
        const char *text;
        int64_t value;
        const char *wrong;
    } cases[] = {
        { "(i0.0 + 7) / 8 * 8", 16, NULL }, { "i0.0 % i1.0 + i0.1 ** 2", 17, NULL }, { "-i0.0 + 20", 7, NULL },
        { " 2 * ( i0.1 - 1 ) ", 6, NULL },  { "i1.0**0", 1, NULL },                  { "i0.0 / (i1.0 - 3)", 0, "division by 0" },
        { "i0.2", 0, "no such size" },      { "i2.0", 0, "no such size" },           { "i0.0 +", 0, "a number is missing" },
        { "i0.0**60", 0, "too large" },     { "(i0.0", 0, "parenthesis" },           { "i0.0)", 0, "the end" },
        { "(1 - 2) / 2", 0, "negative" },   { "0**99999999999", 0, NULL },           { "9223372036854775807 + 1", 0, "too large" },
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t value;
        char why[160] = "";
        bool done = weft_size_evaluate(cases[i].text, 2, counts, sizes, first_of, &value, why, sizeof(why));
        if (done != (cases[i].wrong == NULL) || (done ? value != cases[i].value : strstr(why, cases[i].wrong) == NULL)) {
            fail_msg("%s: %lld, %s", cases[i].text, (long long)value, why);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_f4_relations_mean_what_they_say),
        cmocka_unit_test(test_f4_implied_relations_follow),
        cmocka_unit_test(test_f4_texts_that_cannot_be_read),
        cmocka_unit_test(test_f4_linear_dependence_is_found),
        cmocka_unit_test(test_f4_sizes_become_symbols),
        cmocka_unit_test(test_f4_symbols_of_a_thousand_shapes),
        cmocka_unit_test(test_f4_relations_follow_from_calls),
        cmocka_unit_test(test_f4_branches_leave_relations),
        cmocka_unit_test(test_f4_expressions),
    };
    return RUN_ON_RANKS(tests);
}
