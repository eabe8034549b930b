#include "plan_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuts.h"

/* ---- numbers ------------------------------------------------------------------------------------------- */

/* ---- meshes -------------------------------------------------------------------------------------------- */

weft_mesh_impl *mesh_of(int ndim, const int64_t shape[], const int ranks[])
{
    weft_status status;
    char why[200] = "";
    weft_mesh_impl *mesh =
        weft_mesh_new(ndim, shape, ranks, NULL, (int64_t)1 << 30, &status, why, sizeof(why));
    if (mesh == NULL) {
        fail_msg("no mesh: %s", why);
    }
    return mesh;
}

static void shuffle(prng *random, int items[], int count)
{
    for (int i = count - 1; i > 0; i--) {
        int j = (int)prng_below(random, i + 1);
        int kept = items[i];
        items[i] = items[j];
        items[j] = kept;
    }
}

weft_mesh_impl *drawn_mesh(prng *random, int world_size, int max_ranks)
{
    int64_t shape[3];
    int ndim = 1 + (int)prng_below(random, 3);
    int64_t count = 1, most = max_ranks < world_size ? max_ranks : world_size;
    for (int m = 0; m < ndim; m++) {
        /* Small sizes are as likely as one that uses the room up. */
        int64_t room = most / count;
        shape[m] = 1 + prng_below(random, prng_below(random, 2) ? room : weft_min_i64(room, 3));
        count *= shape[m];
    }
    int ranks[MAX_WORLD];
    for (int i = 0; i < world_size; i++) {
        ranks[i] = i;
    }
    int64_t kind = prng_below(random, 3);
    int shift = 0;
    if (kind == 1) {
        shift = (int)prng_below(random, world_size - count + 1);
    } else if (kind == 2) {
        shuffle(random, ranks, world_size);
    }
    return mesh_of(ndim, shape, kind == 0 ? NULL : ranks + shift);
}

/* ---- layouts ------------------------------------------------------------------------------------------- */

void drawn_placements(prng *random, const weft_mesh_impl *mesh, int ndim, bool partial, weft_placement out[])
{
    /* A tensor has one operation as a rule, and seldom several. */
    weft_reduce_op op = (weft_reduce_op)prng_below(random, 5);
    bool mixed = prng_below(random, 3) == 0;
    for (int m = 0; m < mesh->ndim; m++) {
        int64_t kind = prng_below(random, partial ? 4 : 3);
        if (kind == 0 || (kind < 3 && ndim == 0)) {
            out[m] = weft_replicate();
        } else if (kind < 3) {
            int dim = (int)prng_below(random, ndim);
            out[m] = kind == 1 ? weft_shard(dim) : weft_shard_balanced(dim);
        } else {
            out[m] = weft_partial(mixed ? (weft_reduce_op)prng_below(random, 5) : op);
        }
    }
    draw_levels(random, mesh->ndim, out);
}

void drawn_sizes(prng *random, const weft_mesh_impl *mesh, int ndim, const int64_t shape[], weft_placement placements[])
{
    for (int m = 0; m < mesh->ndim && ndim > 0; m++) {
        int dim = placements[m].dim, level = placements[m].level;
        if (cuts_first(mesh->ndim, placements, m) && prng_below(random, 3) == 0) {
            placements[m] = sizes_of_rows(random, dim, mesh->shape[m], shape[dim]);
            placements[m].level = level;
        }
    }
}

/* Cyclic, zigzag and periodic cuts in place of some others, in half of the layouts. */
void drawn_runs(prng *random, const weft_mesh_impl *m, weft_placement placements[])
{
    bool draws = prng_below(random, 2) == 0;
    for (int d = 0; d < m->ndim && draws; d++) {
        if (placements[d].kind == WEFT_SHARD && prng_below(random, 2) == 0) {
            int level = placements[d].level;
            placements[d] = cut_in_runs(random, placements[d].dim, m->shape[d]);
            placements[d].level = level;
        }
    }
}

bool lists_sizes(const weft_layout *layout)
{
    bool lists = false;
    for (int m = 0; m < layout->mesh->ndim; m++) {
        lists = lists || layout->placements[m].sizes != NULL;
    }
    return lists;
}

int drawn_shape(prng *random, int max_ndim, int64_t max, int64_t max_count, int64_t shape[])
{
    int ndim = (int)prng_below(random, max_ndim + 1);
    int64_t count = 1;
    for (int d = 0; d < ndim; d++) {
        int64_t room = weft_min_i64(max, max_count / count);
        shape[d] = prng_below(random, 8) == 0 ? prng_below(random, 2) : 1 + prng_below(random, room);
        count *= weft_max_i64(1, shape[d]);
    }
    return ndim;
}

void random_topology(prng *random, int world_size, placed_world *world)
{
    int processes = 0;
    int64_t kind = prng_below(random, 4);
    for (int rank = 0; rank < world_size; rank++) {
        bool starts = kind == 0 ? rank == 0 : kind <= 2 ? true : rank == 0 || prng_below(random, 3) == 0;
        if (starts) {
            world->first_rank[processes++] = rank;
        }
    }
    world->first_rank[processes] = world_size;
    world->topology = (weft_topology){ world_size, processes, kind == 1 ? NULL : world->first_rank };
}

const weft_layout *layout_of(weft_layout_table *table, const weft_mesh_impl *mesh, const char *text, int ndim,
                             const int64_t shape[], weft_dtype dtype)
{
    weft_placement placements[WEFT_MAX_DIMS];
    assert_int_equal(weft_placements_read(text, mesh->ndim, placements, NULL, 0), WEFT_OK);
    assert_int_equal(weft_placements_normalize(placements, mesh->ndim, ndim, placements, NULL, 0), WEFT_OK);
    const weft_layout *layout = weft_layout_intern(table, mesh, placements, ndim, shape, dtype);
    assert_non_null(layout);
    return layout;
}

const weft_layout *random_layout(prng *random, weft_layout_table *table, weft_mesh_impl **mesh)
{
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
    *mesh = drawn_mesh(random, 16, 12);
    int ndim = drawn_shape(random, 4, 17, 3000, shape);
    drawn_placements(random, *mesh, ndim, true, placements);
    drawn_sizes(random, *mesh, ndim, shape, placements);
    return weft_layout_intern(table, *mesh, placements, ndim, shape,
                              (weft_dtype)prng_below(random, REAL_TYPES));
}

/* ---- fixtures ------------------------------------------------------------------------------------------ */

int fixture_new(void **state)
{
    fixture *f = calloc(1, sizeof(*f));
    f->table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT);
    f->cost = (weft_cost_model)WEFT_COST_MODEL_DEFAULT;
    *state = f;
    return 0;
}

int fixture_free(void **state)
{
    fixture *f = *state;
    for (int i = 0; i < f->num_meshes; i++) {
        weft_mesh_delete(f->meshes[i]);
    }
    weft_layout_table_delete(f->table);
    free(f);
    return 0;
}

const weft_mesh_impl *mesh(fixture *f, int ndim, const int64_t shape[])
{
    assert_true(f->num_meshes < MAX_MESHES);
    return f->meshes[f->num_meshes++] = mesh_of(ndim, shape, NULL);
}

weft_topology one_rank_each(const weft_mesh_impl *m)
{
    return (weft_topology){ (int)m->num_ranks, (int)m->num_ranks, NULL };
}

weft_plan plan_between(fixture *f, const weft_mesh_impl *m, int ndim, const int64_t shape[], const char *from,
                       const char *to)
{
    weft_topology topology = one_rank_each(m);
    weft_plan plan;
    char why[300] = "";
    const weft_layout *source = layout_of(f->table, m, from, ndim, shape, WEFT_F32);
    const weft_layout *target = layout_of(f->table, m, to, ndim, shape, WEFT_F32);
    if (weft_plan_make(f->table, &topology, &f->cost, source, target, &plan, why, sizeof(why)) != WEFT_OK) {
        fail_msg("no plan: %s", why);
    }
    return plan;
}

/* ---- references ---------------------------------------------------------------------------------------- */

void reference_chunk(int64_t n, int64_t parts, int64_t block, int64_t index, int64_t *offset, int64_t *extent)
{
    int64_t size = block > 0 ? block : (n + parts - 1) / parts, left = n;
    *offset = n;
    *extent = 0;
    for (int64_t i = 0; i <= index && left > 0; i++) {
        int64_t piece = left < size ? left : size;
        *offset = i == index ? n - left : n;
        *extent = i == index ? piece : 0;
        left -= piece;
    }
}

/* Counts the rows that coordinate `index` of a mesh dimension holds of n rows. */
static void reference_part(weft_placement shard, int64_t n, int64_t parts, int64_t index, int64_t *offset, int64_t *extent)
{
    const int64_t *sizes;
    if (shard.cut == WEFT_CUT_CHUNKS) {
        reference_chunk(n, parts, shard.block, index, offset, extent);
        return;
    }
    weft_placement_sizes(shard, &sizes);
    *offset = *extent = 0;
    for (int64_t i = 0; i <= index; i++) {
        int64_t dealt = 0; /* rows that i gets when they are dealt one by one */
        for (int64_t row = i; row < n && sizes == NULL; row += parts) {
            dealt++;
        }
        *offset += *extent;
        *extent = sizes == NULL ? dealt : sizes[i];
    }
}

weft_box reference_box(const weft_layout *layout, int64_t index)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    for (int m = layout->mesh->ndim - 1; m >= 0; m--) {
        coordinate[m] = index % layout->mesh->shape[m];
        index /= layout->mesh->shape[m];
    }
    weft_box box = { { 0 }, { 0 } };
    memcpy(box.extent, layout->shape, (size_t)layout->ndim * sizeof(int64_t));
    for (int i = 0; i < WEFT_MAX_DIMS * layout->mesh->ndim; i++) {
        int m = i % layout->mesh->ndim, level = i / layout->mesh->ndim;
        if (layout->placements[m].kind == WEFT_SHARD && layout->placements[m].level == level) {
            int d = layout->placements[m].dim;
            int64_t offset;
            reference_part(layout->placements[m], box.extent[d], layout->mesh->shape[m], coordinate[m], &offset, &box.extent[d]);
            box.offset[d] += offset;
        }
    }
    return box;
}

int64_t element_number(int ndim, const int64_t shape[], const int64_t element[])
{
    int64_t number = 0;
    for (int d = 0; d < ndim; d++) {
        number = number * shape[d] + element[d];
    }
    return number;
}

bool next_element(int ndim, const weft_box *box, int64_t element[])
{
    for (int d = ndim - 1; d >= 0; d--) {
        if (++element[d] < box->offset[d] + box->extent[d]) {
            return true;
        }
        element[d] = box->offset[d];
    }
    return false;
}

const char *describe_plan(const weft_layout *from, const weft_layout *to, const weft_topology *topology)
{
    static char text[8 * MAX_WORLD + 700];
    char a[300], b[300], processes[8 * MAX_WORLD] = "one rank per process";
    size_t used = 0;
    for (int p = 0;
         topology->first_rank != NULL && topology->num_ranks <= MAX_WORLD && p < topology->num_processes;
         p++) {
        used += (size_t)snprintf(processes + used, sizeof(processes) - used, "%s%d",
                                 p == 0 ? "processes from " : ",", topology->first_rank[p]);
    }
    snprintf(text, sizeof(text), "%s -> %s, %s", weft_layout_format(from, a, sizeof(a)),
             weft_layout_format(to, b, sizeof(b)), processes);
    return text;
}
