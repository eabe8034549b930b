/* Classes of processes. Two processes are in one class if their ranks have the same places in the meshes (first, last or
 * between, in each dimension), and parts of the same sizes of every tensor of the graph; where sizes are listed, the same part. */
#include <stdlib.h>

#include "predict/predict.h"

static uint64_t add_place(uint64_t digest, const weft_mesh_impl *mesh, int64_t index)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    weft_mesh_unravel(mesh, index, coordinate);
    for (int d = 0; d < mesh->ndim; d++) {
        uint64_t place = coordinate[d] == 0 ? 1 : coordinate[d] == mesh->shape[d] - 1 ? 2 : 3;
        digest = weft_digest_add(digest, place);
    }
    return digest;
}

static uint64_t add_layout(uint64_t digest, const weft_layout *layout, int rank)
{
    int64_t index = weft_mesh_index_of(layout->mesh, rank);
    if (index < 0) {
        return weft_digest_add(digest, 0);
    }
    weft_box box;
    weft_layout_shard_box(layout, rank, &box);
    digest = add_place(digest, layout->mesh, index);
    for (int d = 0; d < layout->ndim; d++) {
        digest = weft_digest_add(digest, (uint64_t)box.extent[d]);
    }
    for (int m = 0; m < layout->mesh->ndim; m++) {
        weft_placement p = layout->placements[m];
        if (p.sizes != NULL || p.block > 0 || weft_cut_has_runs(p)) { /* each part exchanges with others than the next one */
            digest = weft_digest_add(digest, (uint64_t)box.offset[p.dim]);
        }
    }
    return digest;
}

/* Each layout of the graph once. False: no memory. */
static bool find_layouts(const weft_graph_impl *graph, weft_map *layouts)
{
    bool done = true;
    for (size_t i = 0; i < graph->num_newest; i++) {
        const weft_graph_trace *trace = ((weft_graph_segment *)graph->segments.items)[i].newest;
        for (size_t k = 0; k < trace->values.count && done; k++) {
            const weft_layout *layout = weft_trace_value(trace, (int)k)->layout;
            done = weft_map_has_pointer(layouts, layout) || weft_map_add_pointer(layouts, layout);
        }
    }
    return done;
}

/* The sum does not depend on the order of the map. */
static uint64_t signature(const weft_map *layouts, const weft_predicted_world *world, int process)
{
    uint64_t found = 0;
    for (int rank = world->first_rank_of[process]; rank < world->first_rank_of[process + 1]; rank++) {
        uint64_t of_rank = 0;
        for (weft_map_slot *slot = weft_map_each(layouts, NULL); slot != NULL; slot = weft_map_each(layouts, slot)) {
            const weft_layout *layout = slot->value;
            of_rank += add_layout(layout->digest, layout, rank);
        }
        found = weft_digest_add(found, of_rank);
    }
    return found;
}

static void classify(const weft_map *layouts, const weft_predicted_world *world, weft_process_classes *classes,
                     uint64_t signatures[])
{
    bool all = world->processes <= WEFT_ALL_SIMULATED;
    for (int p = 0; p < world->processes; p++) {
        uint64_t own = all ? (uint64_t)p : signature(layouts, world, p);
        int class = 0;
        while (class < classes->count && signatures[class] != own) {
            class++;
        }
        if (class == classes->count) {
            signatures[class] = own;
            classes->first[classes->count++] = p;
        }
        classes->class_of[p] = class;
    }
}

bool weft_process_classes_find(const weft_graph_impl *graph, const weft_predicted_world *world,
                               weft_process_classes *classes)
{
    weft_map layouts = { 0 };
    size_t count = (size_t)world->processes;
    uint64_t *signatures = malloc(count * sizeof(*signatures));
    *classes = (weft_process_classes){ .class_of = malloc(count * sizeof(int)), .first = malloc(count * sizeof(int)) };
    bool done = signatures != NULL && classes->class_of != NULL && classes->first != NULL && find_layouts(graph, &layouts);
    if (done) {
        classify(&layouts, world, classes, signatures);
    }
    weft_map_free(&layouts);
    free(signatures);
    return done;
}

void weft_process_classes_free(weft_process_classes *classes)
{
    free(classes->class_of);
    free(classes->first);
}
