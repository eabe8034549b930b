/* weft-plan: its figures and boxes compared with brute force, its output, and its messages on bad input.
 * The program's path is the first argument, or WEFT_TEST_PLAN_TOOL. */
#include "plan_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "output.h"

static const char *program;

/* The program's output, and its exit status. */
typedef struct run {
    char *text;
    int status;
} run;

/* Runs it with these arguments, as a shell takes them; `errors`: its messages, instead of its output. */
static run run_tool(const char *arguments, bool errors)
{
    run r;
    r.text = output_of(program, arguments, errors, &r.status);
    return r;
}

/* ---- JSON, as far as it is needed here ----------------------------------------------------------------- */

/* The text after "key":. */
static const char *json_value(const char *text, const char *key)
{
    char quoted[100];
    snprintf(quoted, sizeof(quoted), "\"%s\":", key);
    const char *found = strstr(text, quoted);
    if (found == NULL) {
        fail_msg("no %s in: %.300s", quoted, text);
    }
    return found + strlen(quoted) + strspn(found + strlen(quoted), " ");
}

static int64_t json_number(const char *text, const char *key)
{
    return strtoll(json_value(text, key), NULL, 10);
}

static bool json_is(const char *text, const char *key, const char *value)
{
    return strncmp(json_value(text, key), value, strlen(value)) == 0;
}

/* One entry of "receives" or "sends"; *text advances after it. False: none. */
typedef struct entry {
    int64_t stage, peer;
    weft_box box;
} entry;

static bool json_entry(const char **text, int ndim, entry *out)
{
    const char *at = *text + strspn(*text, " \n,[");
    if (*at != '{') {
        return false;
    }
    out->stage = json_number(at, "stage");
    out->peer = json_number(at, "peer");
    const char *offset = json_value(at, "offset") + 1, *extent = json_value(at, "extent") + 1;
    for (int d = 0; d < ndim; d++) {
        char *end;
        out->box.offset[d] = strtoll(offset, &end, 10);
        offset = end + 1;
        out->box.extent[d] = strtoll(extent, &end, 10);
        extent = end + 1;
    }
    *text = strchr(at, '}') + 1;
    return true;
}

/* ---- figures ------------------------------------------------------------------------------------------- */

/* A case without Partial and with one stage: the necessary transfers of any plan. */
typedef struct figures {
    int64_t total, in_max;
} figures;

static figures count_by_hand(const weft_layout *from, const weft_layout *to, int64_t ranks)
{
    figures f = { 0, 0 };
    int64_t size = (int64_t)weft_dtype_size(from->dtype);
    for (int64_t rank = 0; rank < ranks; rank++) {
        weft_box wanted = { { 0 }, { 0 } }, held = { { 0 }, { 0 } }, both;
        int64_t in = 0;
        if (rank < to->mesh->num_ranks) {
            wanted = reference_box(to, rank);
            in = weft_box_count(to->ndim, &wanted) * size;
        }
        if (rank < from->mesh->num_ranks && rank < to->mesh->num_ranks) {
            held = reference_box(from, rank);
            in -= weft_box_intersect(to->ndim, &wanted, &held, &both) ? weft_box_count(to->ndim, &both) * size
                                                                      : 0;
        }
        f.total += in;
        f.in_max = weft_max_i64(f.in_max, in);
    }
    return f;
}

static char *sizes_text(char *text, size_t room, int count, const int64_t sizes[])
{
    weft_text written = weft_text_in(text, room);
    weft_text_add_sizes(&written, count, sizes, "x");
    return text;
}

/* The receives of each rank cover its box, each element once, from ranks that hold it; sends are the
 * inverse. */
static void check_boxes(const char *arguments, const weft_layout *from, const weft_layout *to, int64_t ranks)
{
    int64_t received = 0, sent = 0, checksum = 0;
    for (int64_t rank = 0; rank < ranks; rank++) {
        char with_rank[1024];
        snprintf(with_rank, sizeof(with_rank), "%s --rank %lld", arguments, (long long)rank);
        run r = run_tool(with_rank, false);
        assert_int_equal(json_number(r.text, "rank"), rank);
        entry e;
        int64_t covered = 0;
        for (const char *at = json_value(r.text, "receives"); json_entry(&at, to->ndim, &e); received++) {
            weft_box wanted = reference_box(to, rank), held = reference_box(from, e.peer), inside;
            weft_box_intersect(to->ndim, &wanted, &e.box, &inside);
            assert_true(weft_box_equal(to->ndim, &inside, &e.box));
            weft_box_intersect(to->ndim, &held, &e.box, &inside);
            assert_true(weft_box_equal(to->ndim, &inside, &e.box));
            covered += weft_box_count(to->ndim, &e.box);
            checksum += (rank * 131 + e.peer) * weft_box_count(to->ndim, &e.box);
        }
        weft_box whole = reference_box(to, rank);
        assert_int_equal(covered, rank < to->mesh->num_ranks ? weft_box_count(to->ndim, &whole) : 0);
        for (const char *at = json_value(r.text, "sends"); json_entry(&at, to->ndim, &e); sent++) {
            checksum -= (e.peer * 131 + rank) * weft_box_count(to->ndim, &e.box);
        }
        free(r.text);
    }
    assert_int_equal(received, sent);
    assert_int_equal(checksum, 0);
}

static void figures_and_boxes_of_random_layouts(void **state)
{
    fixture *f = *state;
    prng random = prng_start(41);
    for (int i = 0; i < 60; i++) {
        int64_t shape[WEFT_MAX_DIMS],
            mesh_shape[2][2] = { { 1 + prng_below(&random, 4), 1 + prng_below(&random, 3) } };
        mesh_shape[1][0] = 1 + prng_below(&random, 7);
        int ndim = 1 + drawn_shape(&random, 2, 17, 3000, shape + 1);
        shape[0] = prng_below(&random, 18);
        weft_mesh_impl *a = mesh_of(2, mesh_shape[0], NULL),
                       *b = i % 2 == 0 ? a : mesh_of(1, mesh_shape[1], NULL);
        weft_placement placements[2][WEFT_MAX_DIMS];
        drawn_placements(&random, a, ndim, false, placements[0]);
        drawn_placements(&random, b, ndim, false, placements[1]);
        weft_dtype dtype = (weft_dtype)prng_below(&random, REAL_TYPES);
        const weft_layout *from = weft_layout_intern(f->table, a, placements[0], ndim, shape, dtype);
        const weft_layout *to = weft_layout_intern(f->table, b, placements[1], ndim, shape, dtype);

        char arguments[800], texts[3][100], from_text[60], to_text[60];
        weft_placements_text(placements[0], a->ndim, from_text, sizeof(from_text));
        weft_placements_text(placements[1], b->ndim, to_text, sizeof(to_text));
        from_text[strlen(from_text) - 1] = to_text[strlen(to_text) - 1] = '\0';
        snprintf(arguments, sizeof(arguments),
                 "--mesh %s --to-mesh %s --shape %s --dtype %s --from '%s' --to '%s' --json",
                 sizes_text(texts[0], sizeof(texts[0]), a->ndim, a->shape),
                 sizes_text(texts[1], sizeof(texts[1]), b->ndim, b->shape),
                 sizes_text(texts[2], sizeof(texts[2]), ndim, shape), weft_dtype_name(dtype), from_text + 1,
                 to_text + 1);
        run r = run_tool(arguments, false);
        assert_int_equal(r.status, 0);
        int64_t ranks = weft_max_i64(a->num_ranks, b->num_ranks);
        figures expected = count_by_hand(from, to, ranks);
        assert_int_equal(json_number(r.text, "ranks"), ranks);
        assert_int_equal(json_number(r.text, "lower_bound_bytes_in_max"), expected.in_max);
        assert_true(json_is(r.text, "exact", "true"));
        if (json_number(r.text, "stages") <= 1) {
            assert_int_equal(json_number(r.text, "bytes_total"), expected.total);
            assert_int_equal(json_number(r.text, "bytes_in_max"), expected.in_max);
            if (i % 4 == 0 && from != to) {
                check_boxes(arguments, from, to, ranks);
            }
        }
        assert_true(json_number(r.text, "bytes_out_max") <= json_number(r.text, "bytes_total"));
        free(r.text);
        weft_mesh_delete(b == a ? NULL : b);
        weft_mesh_delete(a);
    }
}

static void expect_figures(const char *arguments, int64_t total, int64_t in, int64_t out, int64_t bound,
                           int64_t messages, const char *algorithm)
{
    run r = run_tool(arguments, false);
    assert_int_equal(r.status, 0);
    assert_true(json_number(r.text, "bytes_total") == total);
    assert_int_equal(json_number(r.text, "bytes_in_max"), in);
    assert_int_equal(json_number(r.text, "bytes_out_max"), out);
    assert_int_equal(json_number(r.text, "lower_bound_bytes_in_max"), bound);
    assert_int_equal(json_number(r.text, "messages_max"), messages);
    assert_true(json_is(r.text, "exact", "true"));
    assert_true(json_is(r.text, "algorithm", algorithm));
    assert_true(strtod(json_value(r.text, "plan_us"), NULL) > 0);
    strtod(json_value(r.text, "predicted_us"), NULL);
    free(r.text);
}

/* 5 rows of 3 on 2x2 are 2, 1, 1, 1. */
static void figures_that_are_known(void **state)
{
    (void)state;
    expect_figures("--mesh 2x2 --shape 5x3 --from S0,S0 --to R,R --json", 180, 48, 72, 48, 3, "\"direct\"");
    expect_figures("--mesh 2x2 --shape 5x3 --from S0,S0 --to S0,S0 --json", 0, 0, 0, 0, 0, "\"identity\"");
    expect_figures("--mesh 4 --shape 1000x1000 --from P --to S0 --json", 12000000, 3000000, 3000000, 3000000,
                   3, "\"reduce\"");
    expect_figures("--mesh 4 --shape 1000x1000 --from P --to R --json", 24000000, 6000000, 6000000, 6000000,
                   6, "\"reduce+move\"");
    expect_figures("--mesh 2 --to-mesh 4 --shape 8 --dtype f64 --from S0 --to S0 --json", 48, 16, 32, 16, 2,
                   "\"direct\"");
    expect_figures("--mesh 4 --shape scalar --from R --to R --json", 0, 0, 0, 0, 0, "\"identity\"");
    expect_figures("--mesh 4 --shape '' --from P --to R --json", 48, 12, 12, 6, 3, "\"reduce\"");
    expect_figures("--mesh 4 --shape 0x7 --from S0 --to R --json", 0, 0, 0, 0, 0, "\"direct\"");
    /* Rank 0 takes what rank 1 of its process has. */
    expect_figures("--mesh 4 --to-mesh 4x1 --shape 8 --from R --to S0,R --local-ranks 2 --json", 0, 0, 0, 0,
                   0, "\"direct\"");
}

static void worlds_of_65536_ranks(void **state)
{
    (void)state;
    const int64_t row = 1024 * 4, others = 65535;
    expect_figures("--mesh 256x256 --shape 65536x1024 --from S0,S0 --to R,R --json", 65536 * others * row,
                   others * row, others * row, others * row, 510, "\"staged\"");
    /* As 256 x 256: twice the bytes, and 511 messages instead of 65,535. Of the second stage's boxes rank (i,
     * i) has one. */
    const int64_t box = 256 * 4, first = 255 * box, second = 256 * box;
    expect_figures("--mesh 65536 --shape 65536x65536 --from S0 --to S1 --json",
                   65536 * (first + second) - 256 * box, first + second, first + second, others * 4, 511,
                   "\"factored\"");
    expect_figures("--mesh 1 --to-mesh 16 --shape 1024x1024 --from R --to R --json", 15 * 4194304, 4194304,
                   4194304, 4194304, 1, "\"chain\"");
    expect_figures("--mesh 1048576 --shape 1048576 --from R --to S0 --json", 0, 0, 0, 0, 0, "\"direct\"");
}

/* ---- the page and the messages ------------------------------------------------------------------------- */

static void assert_says(const run *r, const char *text)
{
    if (strstr(r->text, text) == NULL) {
        fail_msg("\"%s\" is not in: %.2000s", text, r->text);
    }
}

static void the_page(void **state)
{
    (void)state;
    run r = run_tool("--mesh 2x2 --shape 5x3 --from S0,S0 --to R,R --rank 3", false);
    assert_int_equal(r.status, 0);
    assert_says(&r, "f32[5, 3] [S0,S0] on 2x2");
    assert_says(&r, "[R,R] on 2x2");
    assert_says(&r, "stage 1: move, all-gather along 0, 1\n");
    assert_says(&r, "rank 3 receives 4 boxes");
    assert_says(&r, "[4:5, 0:3]  12 bytes, itself");
    assert_says(&r, "180");
    free(r.text);
    r = run_tool("--mesh 30 --shape 60 --from 'P(avg)' --to R", false);
    assert_says(&r, "reduce (sum, times 0.0333333)");
    assert_says(&r, "... and 10 more");
    free(r.text);
    r = run_tool("--mesh 1 --to-mesh 16 --shape 1024x1024 --from R --to R --rank 3", false);
    assert_says(&r, "algorithm  chain, 1 stage");
    assert_says(&r, "stage 1: move (chain)");
    assert_says(&r, "from 2       [0:1024, 0:1024]  4194304 bytes, forwarded");
    free(r.text);
    r = run_tool("--mesh 1 --to-mesh 16 --shape 8 --from R --to R --algorithm tree --json", false);
    assert_says(&r, "\"stage_algorithms\": [\"tree\"]");
    assert_says(&r, "\"stage_kinds\": [\"broadcast\"]");
    free(r.text);
    r = run_tool("--mesh 4 --shape 64x64 --from P --to R --json", false);
    assert_says(&r, "\"stage_kinds\": [\"reduce-scatter\", \"all-gather\"]");
    free(r.text);
    r = run_tool("--help", false);
    assert_int_equal(r.status, 0);
    assert_says(&r, "--to-mesh");
    assert_says(&r, "Usage: weft-plan --mesh");
    free(r.text);
}

static void bad_input_is_named(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *arguments, *says;
    } bad[] = {
        { THIS_ROW, "", "--mesh" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0", "--to" },
        { THIS_ROW, "--mesh 2 --shape 5 --to R", "--from" },
        { THIS_ROW, "--mesh 2 --from S0 --to R", "--shape" },
        { THIS_ROW, "--mesh 2x --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 0 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh -2 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh x2 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh '' --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 2,2 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 1x1x1x1x1x1x1x1x1 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 1048577 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 4294967296x4294967296 --shape 5 --from S0,R --to R,R", "--mesh" },
        { THIS_ROW, "--mesh 99999999999999999999 --shape 5 --from S0 --to R", "--mesh" },
        { THIS_ROW, "--mesh 2 --to-mesh 2097152 --shape 5 --from S0 --to R", "--to-mesh" },
        { THIS_ROW, "--mesh 2 --shape 5xx3 --from S0 --to R", "--shape" },
        { THIS_ROW, "--mesh 2 --shape -5 --from S0 --to R", "--shape" },
        { THIS_ROW, "--mesh 2 --shape 4294967296x4294967296 --from S0 --to R", "--shape" },
        { THIS_ROW, "--mesh 2 --shape 4611686018427387904 --from S0 --to R", "--shape" },
        { THIS_ROW, "--mesh 2 --shape 5 --dtype f31 --from S0 --to R", "--dtype" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S1 --to R", "--from" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0,S0 --to R", "--from" },
        { THIS_ROW, "--mesh 2 --shape 5 --from Q --to R", "--from" },
        { THIS_ROW, "--mesh 2 --shape scalar --from S0 --to R", "--from" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to S3", "--to:" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to P", "--to:" },
        { THIS_ROW, "--mesh 2 --to-mesh 2x2 --shape 5 --from S0 --to R", "--to:" },
        { THIS_ROW, "--mesh 2 --shape 5 --dtype i32 --from 'P(avg)' --to R", "--dtype" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --rank 2", "--rank" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --rank -1", "--rank" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --rank 1x", "--rank" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --local-ranks 0", "--local-ranks" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --algorithm ring", "--algorithm" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --color", "color" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R --rank", "rank" },
        { THIS_ROW, "--mesh 2 --shape 5 --from S0 --to R 7", "7" },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        enter_row(bad[i].place, __func__);
        run r = run_tool(bad[i].arguments, true);
        if (r.status != 2) {
            fail_msg("%s: exit status %d", bad[i].arguments, r.status);
        }
        assert_says(&r, bad[i].says);
        assert_says(&r, "weft-plan");
        free(r.text);
        r = run_tool(bad[i].arguments, false);
        assert_string_equal(r.text, "");
        free(r.text);
    }
    leave_rows();
}

/* Shapes of up to 2^62 bytes: what all ranks move may be more than 64 bits tell. Figures are right, or
 * refused; never negative. */
static void huge_shapes(void **state)
{
    (void)state;
    static const char *const placements[] = { "R", "S0", "S1", "P" };
    for (int bits = 20; bits <= 62; bits += 3) {
        for (int pair = 0; pair < 16 * 12; pair += 7) {
            char arguments[256];
            const char *to = placements[pair / 64];
            snprintf(arguments, sizeof(arguments),
                     "--json --dtype u8 --mesh 8x5 --shape %lldx%lld --from %s,%s --to %s,%s",
                     (long long)1 << bits / 2, (long long)1 << (bits - bits / 2), placements[pair % 4],
                     placements[pair / 4 % 4], to, placements[pair / 16 % 3]);
            run r = run_tool(arguments, false);
            assert_true(r.status == 0 || (r.status == 2 && bits > 40));
            static const char *const keys[] = { "bytes_total", "bytes_in_max", "bytes_out_max",
                                                "lower_bound_bytes_in_max", "messages_max" };
            for (size_t i = 0; i < WEFT_ARRAY_SIZE(keys) && r.status == 0; i++) {
                int64_t number = json_number(r.text, keys[i]);
                if (number < 0 || number == INT64_MAX) {
                    fail_msg("%s: %s is %lld", arguments, keys[i], (long long)number);
                }
            }
            free(r.text);
        }
    }
    run r = run_tool("--dtype u8 --mesh 8x5 --shape 2147483648x2147483648x1 --from S0,S1 --to R,R", true);
    assert_int_equal(r.status, 2);
    assert_says(&r, "what all ranks receive together is more than 2^63 bytes");
    free(r.text);
}

int main(int argc, char **argv)
{
    program = argc > 1 ? argv[1] : getenv("WEFT_TEST_PLAN_TOOL");
    if (program == NULL || access(program, X_OK) != 0) {
        fprintf(stderr, "usage: test-weft_plan PROGRAM\n");
        return 1;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(figures_and_boxes_of_random_layouts, fixture_new, fixture_free),
        cmocka_unit_test(figures_that_are_known),
        cmocka_unit_test(worlds_of_65536_ranks),
        cmocka_unit_test(the_page),
        cmocka_unit_test(bad_input_is_named),
        cmocka_unit_test(huge_shapes),
    };
    return cmocka_run_group_tests_name("weft_plan", tests, NULL, NULL);
}
