#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "comm/launcher.h"
#include "cuts.h"
#include "layout/layout.h"
#include "tensor/tensor.h"

weft_mesh *random_mesh(prng *random, int max_ranks)
{
    int ndim = 1 + (int)prng_below(random, 3);
    int64_t shape[3];
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        shape[d] = 1 + prng_below(random, weft_world_size() < max_ranks ? weft_world_size() : max_ranks);
        while (count * shape[d] > max_ranks || count * shape[d] > weft_world_size()) {
            shape[d]--;
        }
        count *= shape[d];
    }
    if (prng_below(random, 2) == 0) {
        return weft_mesh_create(ndim, shape, NULL);
    }
    /* Any ranks in any order: the first `count` of a random permutation. */
    int world = weft_world_size();
    int *ranks = malloc((size_t)world * sizeof(*ranks));
    for (int i = 0; i < world; i++) {
        int other = (int)prng_below(random, i + 1);
        ranks[i] = ranks[other];
        ranks[other] = i;
    }
    weft_mesh *mesh = weft_mesh_of_ranks(ndim, shape, ranks, NULL);
    free(ranks);
    return mesh;
}

void random_placements(prng *random, const weft_mesh *mesh, int ndim, bool with_partial, weft_placement out[])
{
    weft_reduce_op op = (weft_reduce_op)prng_below(random, 5);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        int64_t kind = prng_below(random, with_partial ? 4 : 3);
        if (kind == 3) {
            out[m] = weft_partial(op);
        } else if (kind == 0 || ndim == 0) {
            out[m] = weft_replicate();
        } else {
            int dim = (int)prng_below(random, ndim);
            out[m] = kind == 1 ? weft_shard(dim) : weft_shard_balanced(dim);
        }
    }
    draw_levels(random, weft_mesh_ndim(mesh), out);
}

void random_cut_sizes(prng *random, const weft_mesh *mesh, int ndim, const int64_t shape[], weft_placement placements[])
{
    for (int m = 0; m < weft_mesh_ndim(mesh) && ndim > 0; m++) {
        int dim = placements[m].dim, level = placements[m].level;
        if (cuts_first(weft_mesh_ndim(mesh), placements, m) && prng_below(random, 3) == 0) {
            placements[m] = sizes_of_rows(random, dim, weft_mesh_size(mesh, m), shape[dim]);
            placements[m].level = level;
        }
    }
}

void forget_sizes(int count, weft_placement placements[])
{
    for (int m = 0; m < count; m++) {
        if (placements[m].kind == WEFT_SHARD && placements[m].cut == WEFT_CUT_SIZES) {
            placements[m].cut = WEFT_CUT_BALANCED;
        }
    }
}

int random_shape(prng *random, int max_ndim, int64_t max, int64_t shape[])
{
    int ndim = (int)prng_below(random, max_ndim + 1);
    for (int d = 0; d < ndim; d++) {
        shape[d] = prng_below(random, 8) == 0 ? prng_below(random, 2) : prng_below(random, max + 1);
    }
    return ndim;
}

int64_t shape_count(int ndim, const int64_t shape[])
{
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        count *= shape[d];
    }
    return count;
}

const char *describe(weft_mesh *mesh, const weft_placement *placements, int ndim, const int64_t shape[])
{
    static char texts[4][256];
    static int next;
    char *text = texts[next++ % 4];
    weft_text written = weft_text_in(text, sizeof(texts[0]));
    weft_text_add(&written, "[");
    weft_text_add_sizes(&written, ndim, shape, "x");
    weft_text_add(&written, "] ");
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        weft_text_add(&written, "%s%d:", m > 0 ? "," : "", (int)weft_mesh_size(mesh, m));
        weft_placements_write(&written, &placements[m], 1);
    }
    return text;
}

int world_start(const weft_config *config)
{
    if (weft_init(config) != WEFT_OK) {
        fail_msg("%s", weft_last_error());
    }
    return 0;
}

int world_stop(void **state)
{
    (void)state;
    assert_no_error();
    assert_int_equal(weft_finalize(), WEFT_OK);
    return 0;
}

bool over_processes(void)
{
    return weft_launched_for_mpi();
}

int run_on_ranks(const struct CMUnitTest tests[], size_t num_tests)
{
    weft_config config = { .local_ranks = over_processes() ? 0 : 4 };
    if (weft_init(&config) != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
        return 1;
    }
    int failed = _cmocka_run_group_tests("tests", tests, num_tests, NULL, NULL);
    return weft_finalize() == WEFT_OK ? failed : 1;
}

void start_with_panels(int ranks, const char *panel_rows)
{
    unsetenv("WEFT_PANEL_ROWS");
    if (panel_rows != NULL) {
        setenv("WEFT_PANEL_ROWS", panel_rows, 1);
    }
    WORLD(ranks);
}

void assert_no_error(void)
{
    if (weft_last_status() != WEFT_OK) {
        fail_msg("%s: %s", weft_status_string(weft_last_status()), weft_last_error());
    }
}

int count_in(const char *text, const char *word)
{
    int found = 0;
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        found++;
    }
    return found;
}

void assert_error(weft_status status, const char *text)
{
    if (weft_last_status() != status || strstr(weft_last_error(), text) == NULL) {
        fail_msg("expected \"%s\" naming \"%s\", got \"%s\": %s", weft_status_string(status), text,
                 weft_status_string(weft_last_status()), weft_last_error());
    }
    weft_clear_error();
}

int64_t dense_index(int ndim, const int64_t shape[], const int64_t offset[], const int64_t extent[],
                    int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        index += (offset[d] + i % extent[d]) * step;
        i /= extent[d];
        step *= shape[d];
    }
    return index;
}

int64_t shard_element(const hosted_shard *s, int ndim, const int64_t shape[], int64_t i)
{
    int64_t index = 0, step = 1;
    for (int d = ndim - 1; d >= 0; d--) {
        int64_t local = i % s->extent[d];
        index += (s->places[d] == NULL ? s->offset[d] + local : s->places[d][local]) * step;
        i /= s->extent[d];
        step *= shape[d];
    }
    return index;
}

void copy_box_out(int ndim, const int64_t shape[], size_t element_size, const void *dense,
                  const int64_t offset[], const int64_t extent[], void *box)
{
    int64_t count = shape_count(ndim, extent);
    for (int64_t i = 0; i < count; i++) {
        int64_t place = dense_index(ndim, shape, offset, extent, i);
        memcpy((char *)box + (size_t)i * element_size, (const char *)dense + (size_t)place * element_size,
               element_size);
    }
}

/* ---- what every rank holds ----------------------------------------------------------------------------- */

weft_tensor *without_partial(weft_tensor *tensor)
{
    weft_mesh *mesh = weft_tensor_mesh(tensor);
    weft_placement placements[WEFT_MAX_DIMS];
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        placements[m] = weft_tensor_placements(tensor)[m];
        placements[m] = placements[m].kind == WEFT_PARTIAL ? weft_replicate() : placements[m];
    }
    return weft_redistribute(tensor, mesh, placements);
}

/* A rank's report on its shard. */
typedef struct shard_report {
    int64_t wrong; /* 1: the process that hosts it has found something */
    int64_t digest;
} shard_report;

typedef struct inspection {
    weft_tensor *tensor;
    weft_mesh *mesh;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    size_t element_size;
    char *text;
    size_t size;
    bool right;
} inspection;

/* Keeps the first finding. */
static void find(inspection *in, const char *format, ...)
{
    if (in->right) {
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(in->text, in->size, format, arguments);
        va_end(arguments);
    }
    in->right = false;
}

/* The mesh index of the first rank that holds what this coordinate does. */
static int64_t first_replica(const inspection *in, const int64_t coordinate[])
{
    const weft_placement *placements = weft_tensor_placements(in->tensor);
    int64_t index = 0;
    for (int m = 0; m < weft_mesh_ndim(in->mesh); m++) {
        index =
            index * weft_mesh_size(in->mesh, m) + (placements[m].kind == WEFT_REPLICATE ? 0 : coordinate[m]);
    }
    return index;
}

static int64_t digest_of(const void *values, size_t bytes)
{
    uint64_t digest = UINT64_C(0xcbf29ce484222325); /* FNV-1a */
    for (size_t i = 0; i < bytes; i++) {
        digest = (digest ^ ((const unsigned char *)values)[i]) * UINT64_C(0x100000001b3);
    }
    return (int64_t)digest;
}

/* Where a shard that is no box lies. */
static void list_places(hosted_shard *s, const weft_layout *layout)
{
    weft_box box;
    weft_layout_shard_box(layout, s->rank, &box);
    memcpy(s->offset, box.offset, sizeof(s->offset));
    memcpy(s->extent, box.extent, sizeof(s->extent));
    for (int d = 0; d < layout->ndim; d++) {
        weft_vec runs = { 0 };
        assert_true(weft_layout_runs(layout, s->coordinate, d, &runs));
        s->places[d] = malloc(((size_t)s->extent[d] + 1) * sizeof(int64_t));
        for (size_t i = 0; i < runs.count; i++) {
            const weft_run run = ((weft_run *)runs.items)[i];
            for (int64_t k = 0; k < run.rows; k++) {
                s->places[d][run.local + k] = run.begin + k;
            }
        }
        weft_vec_free(&runs);
    }
}

static void free_places(hosted_shard *s)
{
    for (int d = 0; d < WEFT_MAX_DIMS; d++) {
        free(s->places[d]);
    }
}

/* Without values for a rank outside the mesh. */
static hosted_shard copy_shard(inspection *in, int local_rank)
{
    hosted_shard s = { .rank = weft_first_rank() + local_rank };
    if (!weft_mesh_coordinate(in->mesh, s.rank, s.coordinate)) {
        return s;
    }
    int64_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
    const weft_layout *layout = weft_layout_of(in->tensor);
    if (layout->has_runs) {
        list_places(&s, layout);
    } else {
        weft_shard_box(in->mesh, weft_tensor_placements(in->tensor), in->ndim, in->shape, s.rank, offset, extent);
        weft_local_box(in->tensor, local_rank, s.offset, s.extent);
    }
    for (int d = 0; d < in->ndim && !layout->has_runs; d++) {
        if (s.offset[d] != offset[d] || s.extent[d] != extent[d]) {
            find(in, "rank %d: %d+%d in dimension %d, expected %d+%d", s.rank, (int)s.offset[d],
                 (int)s.extent[d], d, (int)offset[d], (int)extent[d]);
        }
    }
    s.count = shape_count(in->ndim, s.extent);
    s.values = malloc((size_t)s.count * in->element_size + 1);
    if (weft_local_to_host(in->tensor, local_rank, s.values, (size_t)s.count * in->element_size) != WEFT_OK) {
        find(in, "rank %d: %s", s.rank, weft_last_error());
        weft_clear_error();
        s.count = 0;
    }
    return s;
}

/* Replicas that this process hosts, byte by byte. */
static void compare_hosted(inspection *in, const hosted_shard shards[], int count)
{
    for (int i = 1; i < count; i++) {
        for (int k = 0; k < i && shards[i].count > 0; k++) {
            if (shards[k].count == 0 ||
                first_replica(in, shards[k].coordinate) != first_replica(in, shards[i].coordinate)) {
                continue;
            }
            for (int64_t e = 0; e < shards[i].count && in->right; e++) {
                size_t at = (size_t)e * in->element_size;
                if (memcmp((char *)shards[i].values + at, (char *)shards[k].values + at, in->element_size)) {
                    find(in, "element %d of ranks %d and %d, which hold the same, differs", (int)e,
                         shards[k].rank, shards[i].rank);
                }
            }
            break; /* the others equal that one */
        }
    }
}

/* All processes' reports, in the order of the ranks. */
static bool gather_reports(shard_report own[], shard_report all[])
{
    int64_t shape[] = { weft_world_size(), sizeof(shard_report) / sizeof(int64_t) };
    weft_placement rows = weft_shard(0);
    void **locals = malloc((size_t)weft_local_ranks() * sizeof(*locals));
    for (int i = 0; i < weft_local_ranks(); i++) {
        locals[i] = &own[i];
    }
    weft_scope_begin();
    weft_mesh *mesh = weft_mesh_create(1, shape, NULL);
    weft_tensor *reports = weft_from_local(WEFT_I64, 2, shape, locals, mesh, &rows, WEFT_COPY);
    bool gathered = weft_to_host(reports, all, (size_t)weft_world_size() * sizeof(*all)) == WEFT_OK;
    weft_scope_end();
    free(locals);
    return gathered;
}

/* Whether processes may round differently, because some have a device and others none: floating numbers that both compute. */
static bool rounds_differently(const inspection *in)
{
    weft_dtype dtype = weft_tensor_dtype(in->tensor);
    const char *setting = getenv("WEFT_TEST_ROUNDING");
    return setting != NULL && strcmp(setting, "differs") == 0 &&
           (dtype == WEFT_F64 || dtype == WEFT_F32 || dtype == WEFT_BF16 || dtype == WEFT_F16);
}

/* Findings of other processes, and their replicas. */
static void compare_reports(inspection *in, const shard_report all[])
{
    int64_t num_ranks = weft_mesh_num_ranks(in->mesh), coordinate[WEFT_MAX_DIMS];
    int *first = malloc((size_t)num_ranks * sizeof(*first)); /* rank by first_replica(); -1: none yet */
    for (int64_t i = 0; i < num_ranks; i++) {
        first[i] = -1;
    }
    for (int rank = 0; rank < weft_world_size(); rank++) {
        if (all[rank].wrong) {
            find(in, "the process of rank %d has found something", rank);
        }
        if (!weft_mesh_coordinate(in->mesh, rank, coordinate)) {
            continue;
        }
        int *other = &first[first_replica(in, coordinate)];
        if (*other >= 0 && !rounds_differently(in) && all[*other].digest != all[rank].digest) {
            find(in, "ranks %d and %d, which hold the same, differ", *other, rank);
        }
        *other = *other < 0 ? rank : *other;
    }
    free(first);
}

/* All processes take part, whatever they have found: none is left waiting. */
static void compare_processes(inspection *in, const hosted_shard shards[], int count)
{
    shard_report *own = calloc((size_t)count + 1, sizeof(*own));
    shard_report *all = calloc((size_t)weft_world_size(), sizeof(*all));
    for (int i = 0; i < count; i++) {
        own[i].wrong = !in->right;
        own[i].digest = digest_of(shards[i].values, (size_t)shards[i].count * in->element_size);
    }
    if (gather_reports(own, all)) {
        compare_reports(in, all);
    } else {
        find(in, "%s", weft_last_error());
        weft_clear_error();
    }
    free(own);
    free(all);
}

bool shards_are_right(weft_tensor *tensor, shard_judge judge, const void *expected, char *text, size_t size)
{
    inspection in = { .tensor = tensor,
                      .mesh = weft_tensor_mesh(tensor),
                      .ndim = weft_tensor_ndim(tensor),
                      .element_size = weft_dtype_size(weft_tensor_dtype(tensor)),
                      .text = text,
                      .size = size,
                      .right = true };
    for (int d = 0; d < in.ndim; d++) {
        in.shape[d] = weft_tensor_size(tensor, d);
    }
    int count = weft_local_ranks();
    hosted_shard *shards = calloc((size_t)count + 1, sizeof(*shards));
    for (int i = 0; i < count; i++) {
        shards[i] = copy_shard(&in, i);
        char why[300] = "";
        if (judge != NULL && shards[i].count > 0 && in.right &&
            !judge(&shards[i], expected, why, sizeof(why))) {
            find(&in, "rank %d: %s", shards[i].rank, why);
        }
    }
    compare_hosted(&in, shards, count);
    if (weft_num_processes() > 1) {
        compare_processes(&in, shards, count);
    }
    for (int i = 0; i < count; i++) {
        free_places(&shards[i]);
        free(shards[i].values);
    }
    free(shards);
    return in.right;
}

void assert_shards(weft_tensor *tensor, shard_judge judge, const void *expected, const char *what)
{
    char text[500];
    if (!shards_are_right(tensor, judge, expected, text, sizeof(text))) {
        int64_t shape[WEFT_MAX_DIMS];
        for (int d = 0; d < weft_tensor_ndim(tensor); d++) {
            shape[d] = weft_tensor_size(tensor, d);
        }
        fail_msg("%s: %s, in %s", what, text,
                 describe(weft_tensor_mesh(tensor), weft_tensor_placements(tensor), weft_tensor_ndim(tensor),
                          shape));
    }
}

/* The same shard of another tensor. */
static bool judge_same(const hosted_shard *found, const void *expected, char *text, size_t size)
{
    weft_tensor *other = *(weft_tensor *const *)expected;
    size_t element_size = weft_dtype_size(weft_tensor_dtype(other));
    size_t bytes = (size_t)found->count * element_size;
    char *values = malloc(bytes + 1);
    bool same = weft_local_to_host(other, found->rank - weft_first_rank(), values, bytes) == WEFT_OK;
    if (!same) {
        snprintf(text, size, "%s", weft_last_error());
        weft_clear_error();
    }
    for (int64_t i = 0; i < found->count && same; i++) {
        size_t at = (size_t)i * element_size;
        same = memcmp(values + at, (const char *)found->values + at, element_size) == 0;
        if (!same) {
            snprintf(text, size, "element %d has other bits than expected", (int)i);
        }
    }
    free(values);
    return same;
}

void assert_same_shards(weft_tensor *tensor, weft_tensor *expected, const char *what)
{
    size_t dims = (size_t)weft_mesh_ndim(weft_tensor_mesh(tensor));
    assert_ptr_equal(weft_tensor_mesh(tensor), weft_tensor_mesh(expected));
    assert_int_equal(weft_tensor_dtype(tensor), weft_tensor_dtype(expected));
    assert_int_equal(weft_tensor_ndim(tensor), weft_tensor_ndim(expected));
    for (int d = 0; d < weft_tensor_ndim(tensor); d++) {
        assert_int_equal(weft_tensor_size(tensor, d), weft_tensor_size(expected, d));
    }
    assert_memory_equal(weft_tensor_placements(tensor), weft_tensor_placements(expected),
                        dims * sizeof(weft_placement));
    assert_shards(tensor, judge_same, &expected, what);
}

/* ---- tensors of given shards --------------------------------------------------------------------------- */

void make_locals(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                 const weft_placement placements[], shard_writer write, const void *context, void *locals[])
{
    weft_placement whole[WEFT_MAX_DIMS];
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        whole[m] = placements[m].kind == WEFT_PARTIAL ? weft_replicate() : placements[m];
    }
    weft_scope_begin();
    const weft_layout *layout = weft_layout_of(weft_fake(dtype, ndim, shape, mesh, whole));
    for (int i = 0; i < weft_local_ranks(); i++) {
        hosted_shard s = { .rank = weft_first_rank() + i };
        if (weft_mesh_coordinate(mesh, s.rank, s.coordinate)) {
            if (layout->has_runs) {
                list_places(&s, layout);
            } else {
                weft_shard_box(mesh, placements, ndim, shape, s.rank, s.offset, s.extent);
            }
            s.count = shape_count(ndim, s.extent);
            s.values = malloc((size_t)s.count * weft_dtype_size(dtype) + 1);
            write(&s, context);
            free_places(&s);
        }
        locals[i] = s.values;
    }
    weft_scope_end();
}

void free_locals(void *locals[])
{
    for (int i = 0; i < weft_local_ranks(); i++) {
        free(locals[i]);
    }
}

weft_tensor *make_of_shards(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                            const weft_placement placements[], shard_writer write, const void *context)
{
    void **locals = calloc((size_t)weft_local_ranks() + 1, sizeof(*locals));
    make_locals(dtype, ndim, shape, mesh, placements, write, context, locals);
    weft_tensor *tensor = weft_from_local(dtype, ndim, shape, locals, mesh, placements, WEFT_COPY);
    free_locals(locals);
    free(locals);
    assert_no_error();
    return tensor;
}
