#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
            out[m] = weft_shard((int)prng_below(random, ndim));
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
    static const char *const ops[] = { "sum", "avg", "prod", "min", "max" };
    static char texts[4][256];
    static int next;
    char *text = texts[next++ % 4];
    int used = snprintf(text, 256, "[");
    for (int d = 0; d < ndim; d++) {
        used += snprintf(text + used, 256 - (size_t)used, "%s%d", d ? "x" : "", (int)shape[d]);
    }
    used += snprintf(text + used, 256 - (size_t)used, "] ");
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        used +=
            snprintf(text + used, 256 - (size_t)used, "%s%d:", m ? "," : "", (int)weft_mesh_size(mesh, m));
        weft_placement p = placements[m];
        if (p.kind == WEFT_SHARD) {
            used += snprintf(text + used, 256 - (size_t)used, "S%d", p.dim);
        } else {
            used += snprintf(text + used, 256 - (size_t)used, p.kind == WEFT_PARTIAL ? "P(%s)" : "R",
                             p.kind == WEFT_PARTIAL ? ops[p.op] : "");
        }
    }
    return text;
}

void assert_no_error(void)
{
    if (weft_last_status() != WEFT_OK) {
        fail_msg("%s: %s", weft_status_string(weft_last_status()), weft_last_error());
    }
}

void assert_error(weft_status status, const char *text)
{
    if (weft_last_status() != status || strstr(weft_last_error(), text) == NULL) {
        fail_msg("expected \"%s\" naming \"%s\", got \"%s\": %s", weft_status_string(status), text,
                 weft_status_string(weft_last_status()), weft_last_error());
    }
    weft_clear_error();
}

void copy_box_out(int ndim, const int64_t shape[], size_t element_size, const void *dense,
                  const int64_t offset[], const int64_t extent[], void *box)
{
    int64_t count = shape_count(ndim, extent);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i, place = 0, step = 1;
        for (int d = ndim - 1; d >= 0; d--) {
            place += (offset[d] + rest % extent[d]) * step;
            rest /= extent[d];
            step *= shape[d];
        }
        memcpy((char *)box + (size_t)i * element_size, (const char *)dense + (size_t)place * element_size,
               element_size);
    }
}
