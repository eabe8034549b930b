#include "index_list_scene.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

int64_t scene_part_of(const scene *s, int rank)
{
    int64_t coordinate[WEFT_MAX_DIMS];
    return weft_mesh_coordinate(s->mesh, rank, coordinate) ? coordinate[s->mesh_dim] : -1;
}

void scene_create(scene *s)
{
    int64_t counts[MAX_RANKS], indices[MAX_RANKS * MAX_NAMED], count = 0;
    for (int i = 0; i < weft_local_ranks(); i++) {
        int64_t part = scene_part_of(s, weft_first_rank() + i);
        counts[i] = part < 0 ? 0 : s->counts[part];
        for (int64_t k = 0; k < counts[i]; k++) {
            indices[count++] = s->indices[part][k];
        }
    }
    s->list = weft_index_list_create(s->size, s->mesh, s->placements, counts, count == 0 ? NULL : indices);
}

int64_t scene_index_of(const scene *s, int64_t row)
{
    int64_t part = 0;
    while (part + 1 < s->parts && row >= s->first[part + 1]) {
        part++;
    }
    return s->indices[part][row - s->first[part]];
}

double element(weft_dtype dtype, const void *values, int64_t i)
{
    switch (dtype) {
    case WEFT_F64:
        return ((const double *)values)[i];
    case WEFT_F32:
        return (double)((const float *)values)[i];
    case WEFT_I64:
        return (double)((const int64_t *)values)[i];
    case WEFT_I32:
        return (double)((const int32_t *)values)[i];
    case WEFT_C128: /* each has its number as both parts */
        return ((const double *)values)[2 * i] == ((const double *)values)[2 * i + 1] ? ((const double *)values)[2 * i] : NAN;
    case WEFT_C64:
        return (double)((const float *)values)[2 * i];
    default:
        return (double)((const uint8_t *)values)[i];
    }
}

void set_element(weft_dtype dtype, void *values, int64_t i, double value)
{
    switch (dtype) {
    case WEFT_F64:
        ((double *)values)[i] = value;
        break;
    case WEFT_F32:
        ((float *)values)[i] = (float)value;
        break;
    case WEFT_I64:
        ((int64_t *)values)[i] = (int64_t)value;
        break;
    case WEFT_I32:
        ((int32_t *)values)[i] = (int32_t)value;
        break;
    case WEFT_C128:
        ((double *)values)[2 * i] = ((double *)values)[2 * i + 1] = value;
        break;
    case WEFT_C64:
        ((float *)values)[2 * i] = (float)value;
        ((float *)values)[2 * i + 1] = (float)value;
        break;
    default:
        ((uint8_t *)values)[i] = (uint8_t)value;
        break;
    }
}

void write_dense(const hosted_shard *shard, const void *context)
{
    const dense *d = context;
    size_t size = weft_dtype_size(d->dtype);
    for (int64_t i = 0; i < shard->count; i++) {
        size_t at = (size_t)shard_element(shard, d->ndim, d->shape, i);
        memcpy((char *)shard->values + (size_t)i * size, (const char *)d->values + at * size, size);
    }
}

bool is_dense(const hosted_shard *shard, const void *expected, char *text, size_t size)
{
    const dense *d = expected;
    for (int64_t i = 0; i < shard->count; i++) {
        double wanted = element(d->dtype, d->values, shard_element(shard, d->ndim, d->shape, i));
        double got = element(d->dtype, shard->values, i);
        if (got != wanted) {
            snprintf(text, size, "rank %d has %.17g as element %lld, expected %.17g", shard->rank, got, (long long)i, wanted);
            return false;
        }
    }
    return true;
}
