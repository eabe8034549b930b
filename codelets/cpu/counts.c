/* Counting of values by number. Few bins are counted in several arrays in turn, so that equal values that follow each other do not wait for one
 * another's sum. */
#include "codelets/counts.h"

#include <string.h>

#include "codelets/convert.h"
#include "codelets/cpu/clones.h"
#include "codelets/problems.h"

enum { BLOCK = 512, TURNS = 4, FEW_BINS = 1023 };

typedef struct counts {
    const weft_kernel_call *call;
    int64_t *out;
    int64_t bins;
    bool few;
    int64_t turns[TURNS][FEW_BINS + 1]; /* bin number `bins` is that of values that are not counted */
} counts;

/* ---- places of values ---------------------------------------------------------------------------------- */

/* A value outside goes to bin number `bins`. */
WEFT_CLONES static void find_bins(const double *values, int32_t *places, double low, double high, double bins, int64_t n)
{
    const double scale = bins / (high - low), last = bins - 1;
    for (int64_t i = 0; i < n; i++) {
        const double x = values[i];
        double place = (x - low) * scale;
        place = place < last ? place : last;
        place = x >= low && x <= high ? place : bins;
        places[i] = (int32_t)place;
    }
}

WEFT_CLONES static int64_t find_outside(const int64_t *indices, int64_t size, int64_t n)
{
    int64_t outside = 0;
    for (int64_t i = 0; i < n; i++) {
        outside |= (uint64_t)indices[i] >= (uint64_t)size;
    }
    return outside;
}

/* Indices out of range are reported, and not counted. */
static void find_indices(const counts *c, const int64_t *indices, int32_t *places, int64_t n)
{
    const bool right = find_outside(indices, c->bins, n) == 0;
    for (int64_t i = 0; i < n; i++) {
        const bool fits = right || (indices[i] >= 0 && indices[i] < c->bins);
        if (!fits) {
            weft_problem_range(c->call->error, 0, indices[i], c->bins - 1);
        }
        places[i] = (int32_t)(fits ? indices[i] : c->bins);
    }
}

/* ---- counting ------------------------------------------------------------------------------------------ */

static void count_places(counts *c, const int32_t *places, int64_t n)
{
    int64_t i = 0;
    for (; c->few && i + TURNS <= n; i += TURNS) { /* not vectorised */
        for (int turn = 0; turn < TURNS; turn++) {
            c->turns[turn][places[i + turn]]++;
        }
    }
    for (; i < n; i++) { /* not vectorised */
        if (places[i] < c->bins) {
            c->out[places[i]]++;
        }
    }
}

/* Consecutive elements. */
static void count_elements(counts *c, weft_dtype type, const char *from, int64_t count)
{
    const weft_kernel_call *call = c->call;
    const bool indices = call->numbers[WEFT_COUNT_INDICES] != 0;
    for (int64_t first = 0, n; first < count; first += n) {
        union {
            double f64[BLOCK];
            int64_t i64[BLOCK];
        } values;
        int32_t places[BLOCK];
        n = count - first < BLOCK ? count - first : BLOCK;
        weft_load(indices ? WEFT_I64 : WEFT_F64, &values, type, from + (size_t)first * weft_dtype_size(type), 1, n);
        if (indices) {
            find_indices(c, values.i64, places, n);
        } else {
            find_bins(values.f64, places, call->scalars[WEFT_COUNT_LOW], call->scalars[WEFT_COUNT_HIGH], (double)c->bins, n);
        }
        count_places(c, places, n);
    }
}

static void add_turns(const counts *c)
{
    for (int64_t bin = 0; bin < c->bins && c->few; bin++) {
        c->out[bin] += c->turns[0][bin] + c->turns[1][bin] + c->turns[2][bin] + c->turns[3][bin];
    }
}

void weft_kernel_count(const weft_kernel_call *call)
{
    const weft_view *in = &call->inputs[0];
    counts c;
    c.call = call;
    c.out = weft_view_row(&call->output, 0, NULL);
    c.bins = call->output.extent[0];
    c.few = c.bins <= FEW_BINS;
    for (int turn = 0; turn < TURNS && c.few; turn++) {
        memset(c.turns[turn], 0, (size_t)(c.bins + 1) * sizeof(*c.turns[turn]));
    }
    if (call->first) {
        memset(c.out, 0, (size_t)c.bins * sizeof(*c.out));
    }
    for (int64_t row = 0, rows; row < weft_view_rows(in); row += rows) {
        const char *from = weft_view_row(in, row, &rows);
        count_elements(&c, in->dtype, from, rows * (in->ndim == 0 ? 1 : in->row_elements));
    }
    add_turns(&c);
}
