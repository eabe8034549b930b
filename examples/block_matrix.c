#include "block_matrix.h"

#include <stdlib.h>

#include <weft/weft.h>

static int64_t clamp(int64_t i, int64_t lowest, int64_t highest)
{
    return i < lowest ? lowest : i > highest ? highest : i;
}

/* Global columns of the row of point (x, y, z) of the process's block, ascending. */
static int row_columns(const matrix *a, int64_t x, int64_t y, int64_t z, int64_t columns[NEIGHBOURS])
{
    int count = 0;
    int64_t plane = a->size[0] * a->size[1], planes = a->all / plane, above = a->first / plane + z;
    for (int64_t k = clamp(above - 1, 0, planes - 1); k <= clamp(above + 1, 0, planes - 1); k++) {
        for (int64_t j = clamp(y - 1, 0, a->size[1] - 1); j <= clamp(y + 1, 0, a->size[1] - 1); j++) {
            for (int64_t i = clamp(x - 1, 0, a->size[0] - 1); i <= clamp(x + 1, 0, a->size[0] - 1); i++) {
                columns[count++] = (k * a->size[1] + j) * a->size[0] + i;
            }
        }
    }
    return count;
}

static int by_index(const void *a, const void *b)
{
    int64_t p = *(const int64_t *)a, q = *(const int64_t *)b;
    return (p > q) - (p < q);
}

static bool is_own(const matrix *a, int64_t column)
{
    return column >= a->first && column < a->first + a->rows;
}

/* Sorts the ghosts, and leaves each one once. */
static void sort_ghosts(matrix *a)
{
    int64_t kept = 0;
    qsort(a->ghosts, (size_t)a->num_ghosts, sizeof(*a->ghosts), by_index);
    for (int64_t i = 0; i < a->num_ghosts; i++) {
        if (i == 0 || a->ghosts[i] != a->ghosts[kept - 1]) {
            a->ghosts[kept++] = a->ghosts[i];
        }
    }
    a->num_ghosts = kept;
}

/* Global columns of all rows in `wide`; notes the ghosts. */
static void fill(matrix *a, int64_t wide[])
{
    int64_t row = 0;
    int32_t next = 0;
    for (int64_t z = 0; z < a->size[2]; z++) {
        for (int64_t y = 0; y < a->size[1]; y++) {
            for (int64_t x = 0; x < a->size[0]; x++, row++) {
                int count = row_columns(a, x, y, z, &wide[next]);
                a->begin[row] = next;
                for (int i = 0; i < count; i++, next++) {
                    a->values[next] = wide[next] == a->first + row ? NEIGHBOURS : -1;
                    if (!is_own(a, wide[next])) {
                        a->reaches[row] = true;
                        a->ghosts[a->num_ghosts++] = wide[next];
                    }
                }
            }
        }
    }
    a->begin[row] = next;
}

static void number_columns(matrix *a, const int64_t wide[])
{
    for (int32_t i = 0; i < a->begin[a->rows]; i++) {
        const int64_t *ghost =
            is_own(a, wide[i]) ? NULL : bsearch(&wide[i], a->ghosts, (size_t)a->num_ghosts, sizeof(*ghost), by_index);
        a->columns[i] = (int32_t)(ghost == NULL ? wide[i] - a->first : a->rows + (ghost - a->ghosts));
    }
}

bool matrix_make(matrix *a, const int64_t size[3])
{
    int64_t rows = size[0] * size[1] * size[2];
    size_t entries = (size_t)rows * NEIGHBOURS;
    *a = (matrix){ .size = { size[0], size[1], size[2] }, .rows = rows, .first = rows * weft_process_index(), .all = rows * weft_num_processes() };
    a->begin = calloc((size_t)rows + 1, sizeof(*a->begin));
    a->columns = malloc(entries * sizeof(*a->columns));
    a->values = malloc(entries * sizeof(*a->values));
    a->reaches = calloc((size_t)rows, sizeof(*a->reaches));
    a->ghosts = malloc(entries * sizeof(*a->ghosts));
    int64_t *wide = malloc(entries * sizeof(*wide));
    bool done = a->begin != NULL && a->columns != NULL && a->values != NULL && a->reaches != NULL && a->ghosts != NULL && wide != NULL;
    if (done) {
        fill(a, wide);
        sort_ghosts(a);
        number_columns(a, wide);
    }
    free(wide);
    return done;
}

void matrix_free(matrix *a)
{
    free(a->begin);
    free(a->columns);
    free(a->values);
    free(a->reaches);
    free(a->ghosts);
}
