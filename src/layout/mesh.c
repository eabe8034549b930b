#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "layout/layout.h"

/* ---- checks -------------------------------------------------------------------------------------------- */

static weft_status check_shape(int ndim, const int64_t shape[], int64_t world_size, int64_t *num_ranks,
                               char *why, size_t why_size)
{
    if (ndim < 1 || ndim > WEFT_MAX_DIMS) {
        snprintf(why, why_size, "ndim is %d, expected 1 to %d", ndim, WEFT_MAX_DIMS);
        return WEFT_ERR_INVALID;
    }
    if (shape == NULL) {
        snprintf(why, why_size, "shape is NULL");
        return WEFT_ERR_INVALID;
    }
    for (int d = 0; d < ndim; d++) {
        if (shape[d] < 1) {
            snprintf(why, why_size, "shape[%d] is %lld, expected at least 1", d, (long long)shape[d]);
            return WEFT_ERR_INVALID;
        }
    }
    if (!weft_count_checked(ndim, shape, num_ranks) || *num_ranks > world_size) {
        snprintf(why, why_size, "shape needs more ranks than the world's %lld", (long long)world_size);
        return WEFT_ERR_MESH;
    }
    return WEFT_OK;
}

static weft_status check_names(int ndim, const char *const names[], char *why, size_t why_size)
{
    for (int d = 0; names != NULL && d < ndim; d++) {
        if (names[d] == NULL) {
            continue;
        }
        if (names[d][0] == '\0') {
            snprintf(why, why_size, "names[%d] is empty", d);
            return WEFT_ERR_INVALID;
        }
        for (int other = 0; other < d; other++) {
            if (names[other] != NULL && strcmp(names[other], names[d]) == 0) {
                snprintf(why, why_size, "names[%d] and names[%d] are both \"%s\"", other, d, names[d]);
                return WEFT_ERR_INVALID;
            }
        }
    }
    return WEFT_OK;
}

/* ---- the look-up of ranks: positions ordered by rank --------------------------------------------------- */

typedef struct placed_rank {
    int rank, position;
} placed_rank;

static int by_rank(const void *a, const void *b)
{
    int first = ((const placed_rank *)a)->rank, second = ((const placed_rank *)b)->rank;
    return first < second ? -1 : first > second;
}

static weft_status sort_ranks(weft_mesh_impl *mesh, int64_t world_size, char *why, size_t why_size)
{
    size_t count = (size_t)mesh->num_ranks;
    placed_rank *placed = malloc(count * sizeof(*placed));
    if (placed == NULL) {
        snprintf(why, why_size, "no memory for %zu ranks", count);
        return WEFT_ERR_NOMEM;
    }
    for (size_t i = 0; i < count; i++) {
        placed[i] = (placed_rank){ mesh->ranks[i], (int)i };
    }
    qsort(placed, count, sizeof(*placed), by_rank);
    weft_status status = WEFT_OK;
    mesh->ascending = true;
    for (size_t i = 0; i < count && status == WEFT_OK; i++) {
        mesh->sorted[i] = placed[i].position;
        mesh->ascending = mesh->ascending && placed[i].position == (int)i;
        if (placed[i].rank < 0 || placed[i].rank >= world_size) {
            snprintf(why, why_size, "ranks[%d] is %d, expected 0 to %lld", placed[i].position, placed[i].rank,
                     (long long)world_size - 1);
            status = WEFT_ERR_INVALID;
        } else if (i > 0 && placed[i].rank == placed[i - 1].rank) {
            snprintf(why, why_size, "ranks has %d twice", placed[i].rank);
            status = WEFT_ERR_INVALID;
        }
    }
    free(placed);
    return status;
}

static bool is_identity(const int ranks[], int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        if (ranks[i] != i) {
            return false;
        }
    }
    return true;
}

static weft_status copy_ranks(weft_mesh_impl *mesh, const int ranks[], int64_t world_size, char *why,
                              size_t why_size)
{
    if (ranks == NULL || is_identity(ranks, mesh->num_ranks)) {
        mesh->ascending = true;
        return WEFT_OK;
    }
    size_t bytes = (size_t)mesh->num_ranks * sizeof(int);
    mesh->ranks = malloc(bytes);
    mesh->sorted = malloc(bytes);
    if (mesh->ranks == NULL || mesh->sorted == NULL) {
        snprintf(why, why_size, "no memory for %lld ranks", (long long)mesh->num_ranks);
        return WEFT_ERR_NOMEM;
    }
    memcpy(mesh->ranks, ranks, bytes);
    return sort_ranks(mesh, world_size, why, why_size);
}

static weft_status copy_names(weft_mesh_impl *mesh, const char *const names[], char *why, size_t why_size)
{
    for (int d = 0; names != NULL && d < mesh->ndim; d++) {
        if (names[d] == NULL) {
            continue;
        }
        mesh->names[d] = strdup(names[d]);
        if (mesh->names[d] == NULL) {
            snprintf(why, why_size, "no memory for a name");
            return WEFT_ERR_NOMEM;
        }
    }
    return WEFT_OK;
}

/* ---- meshes -------------------------------------------------------------------------------------------- */

static uint64_t digest_of_ranks(const weft_mesh_impl *mesh)
{
    uint64_t digest = weft_digest_add(0, (uint64_t)mesh->num_ranks);
    for (int64_t i = 0; mesh->ranks != NULL && i < mesh->num_ranks; i++) {
        digest = weft_digest_add(digest, (uint64_t)mesh->ranks[i]);
    }
    return digest;
}

weft_mesh_impl *weft_mesh_new(int ndim, const int64_t shape[], const int ranks[], const char *const names[],
                              int64_t world_size, weft_status *status, char *why, size_t why_size)
{
    char nowhere[1];
    if (why == NULL) {
        why = nowhere;
        why_size = sizeof(nowhere);
    }
    int64_t num_ranks = 0;
    *status = check_shape(ndim, shape, world_size, &num_ranks, why, why_size);
    if (*status == WEFT_OK) {
        *status = check_names(ndim, names, why, why_size);
    }
    if (*status != WEFT_OK) {
        return NULL;
    }
    weft_mesh_impl *mesh = calloc(1, sizeof(*mesh));
    if (mesh == NULL) {
        snprintf(why, why_size, "no memory for a mesh");
        *status = WEFT_ERR_NOMEM;
        return NULL;
    }
    mesh->ndim = ndim;
    memcpy(mesh->shape, shape, (size_t)ndim * sizeof(*shape));
    mesh->num_ranks = num_ranks;
    *status = copy_ranks(mesh, ranks, world_size, why, why_size);
    if (*status == WEFT_OK) {
        *status = copy_names(mesh, names, why, why_size);
    }
    if (*status != WEFT_OK) {
        weft_mesh_delete(mesh);
        return NULL;
    }
    mesh->digest = digest_of_ranks(mesh);
    return mesh;
}

weft_mesh_impl *weft_mesh_factor(const weft_mesh_impl *mesh, int ndim, const int64_t shape[])
{
    weft_mesh_impl *factored = calloc(1, sizeof(*factored));
    if (factored != NULL) {
        factored->ndim = ndim;
        memcpy(factored->shape, shape, (size_t)ndim * sizeof(*shape));
        factored->num_ranks = mesh->num_ranks;
        factored->ranks = mesh->ranks;
        factored->sorted = mesh->sorted;
        factored->ascending = mesh->ascending;
        factored->digest = mesh->digest;
        factored->factored_from = mesh;
    }
    return factored;
}

void weft_mesh_delete(weft_mesh_impl *mesh)
{
    if (mesh == NULL) {
        return;
    }
    if (mesh->factored_from != NULL) {
        mesh->ranks = mesh->sorted = NULL;
    }
    for (int d = 0; d < mesh->ndim; d++) {
        free(mesh->names[d]);
    }
    free(mesh->ranks);
    free(mesh->sorted);
    free(mesh);
}

static bool same_name(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

bool weft_mesh_same(const weft_mesh_impl *a, const weft_mesh_impl *b)
{
    if (a->ndim != b->ndim || (a->ranks == NULL) != (b->ranks == NULL)) {
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != b->shape[d] || !same_name(a->names[d], b->names[d])) {
            return false;
        }
    }
    return a->ranks == NULL || memcmp(a->ranks, b->ranks, (size_t)a->num_ranks * sizeof(int)) == 0;
}

char *weft_mesh_format(const weft_mesh_impl *mesh, char *buffer, size_t size)
{
    weft_text text = weft_text_in(buffer, size);
    bool named = false;
    weft_text_add_sizes(&text, mesh->ndim, mesh->shape, "x");
    for (int d = 0; d < mesh->ndim; d++) {
        named |= mesh->names[d] != NULL;
    }
    for (int d = 0; d < mesh->ndim && named; d++) {
        weft_text_add(&text, "%s%s", d == 0 ? " (" : ", ", mesh->names[d] == NULL ? "-" : mesh->names[d]);
    }
    weft_text_add(&text, "%s", named ? ")" : "");
    enum { SHOWN = 8 };
    for (int64_t i = 0; mesh->ranks != NULL && i < mesh->num_ranks && i < SHOWN; i++) {
        weft_text_add(&text, "%s%d", i == 0 ? " of ranks " : ", ", mesh->ranks[i]);
    }
    weft_text_add(&text, "%s", mesh->ranks != NULL && mesh->num_ranks > SHOWN ? ", ..." : "");
    return buffer;
}

int weft_mesh_rank_at(const weft_mesh_impl *mesh, int64_t index)
{
    return mesh->ranks == NULL ? (int)index : mesh->ranks[index];
}

int64_t weft_mesh_index_of(const weft_mesh_impl *mesh, int rank)
{
    if (mesh->ranks == NULL) {
        return rank >= 0 && rank < mesh->num_ranks ? rank : -1;
    }
    int64_t low = 0, high = mesh->num_ranks;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (mesh->ranks[mesh->sorted[middle]] < rank) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low < mesh->num_ranks && mesh->ranks[mesh->sorted[low]] == rank ? mesh->sorted[low] : -1;
}

void weft_mesh_unravel(const weft_mesh_impl *mesh, int64_t index, int64_t coordinate[])
{
    for (int d = mesh->ndim - 1; d >= 0; d--) {
        coordinate[d] = index % mesh->shape[d];
        index /= mesh->shape[d];
    }
}

int64_t weft_mesh_ravel(const weft_mesh_impl *mesh, const int64_t coordinate[])
{
    int64_t index = 0;
    for (int d = 0; d < mesh->ndim; d++) {
        index = index * mesh->shape[d] + coordinate[d];
    }
    return index;
}
