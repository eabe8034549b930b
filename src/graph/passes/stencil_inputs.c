/* The parts of its sources that a stencil reads: inputs of the operation, each with the indices around those of the output. */
#include "graph/passes/stencil.h"
#include "ops/stencil.h"

enum { MOST_BESIDE = 64, MOST_REACH = 1 << 30 };

/* Whether ranks, or tasks, have parts of a dimension. Along others each task sees all indices. */
static bool is_divided(const weft_stencil_making *m, int d)
{
    return d == 0 || weft_layout_parts(m->output, d) > 1;
}

/* One box of a view reads the source at this distance: its index minus that of the output, one number for each divided dimension. */
typedef struct reading {
    int64_t low[WEFT_MAX_DIMS], high[WEFT_MAX_DIMS];
} reading;

/* Whether an input that reads these indices too is still little more than a part of its source. */
static bool fits_into(const weft_stencil_making *m, int input, const weft_layout *from, const reading *r)
{
    bool fits = true;
    for (int d = 0; d < from->ndim && fits; d++) {
        int64_t low = weft_min_i64(m->low[input][d], r->low[d]), high = weft_max_i64(m->high[input][d], r->high[d]);
        fits = !is_divided(m, d) || high - low <= weft_max_i64(2, weft_min_i64(MOST_BESIDE, from->shape[d] / 4));
    }
    return fits;
}

/* False: there are too many inputs. */
static bool add_reading(weft_stencil_making *m, int source, const reading *r)
{
    const weft_layout *from = weft_trace_layout(m->known->trace, m->source_values[source]);
    int input = 0;
    while (input < m->num_inputs && (m->input_sources[input] != source || !fits_into(m, input, from, r))) {
        input++;
    }
    if (input == WEFT_MAX_KERNEL_INPUTS) {
        return false;
    }
    bool is_new = input == m->num_inputs;
    m->num_inputs += is_new;
    m->input_sources[input] = source;
    for (int d = 0; d < from->ndim; d++) {
        m->low[input][d] = is_new ? r->low[d] : weft_min_i64(m->low[input][d], r->low[d]);
        m->high[input][d] = is_new ? r->high[d] : weft_max_i64(m->high[input][d], r->high[d]);
    }
    return true;
}

/* All boxes of a view along dimension d and those after it. False: there are too many inputs. */
static bool add_readings(weft_stencil_making *m, const weft_stencil_view *view, int d, reading *r)
{
    if (d == view->ndim) {
        return add_reading(m, view->source, r);
    }
    bool done = true, found = false;
    int64_t begin = 0;
    for (int i = 0; i < view->num_segments[d] && done; begin += view->segments[d][i++].count) {
        const weft_stencil_segment *segment = &view->segments[d][i];
        int64_t offset = segment->first - begin;
        if (segment->constant >= 0) {
            continue;
        }
        r->low[d] = found && !is_divided(m, d) ? weft_min_i64(r->low[d], offset) : offset;
        r->high[d] = found && !is_divided(m, d) ? weft_max_i64(r->high[d], offset) : offset;
        found = true;
        done = !is_divided(m, d) || add_readings(m, view, d + 1, r);
    }
    return done && (is_divided(m, d) || !found || add_readings(m, view, d + 1, r));
}

bool weft_stencil_find_inputs(weft_stencil_making *m)
{
    bool done = true;
    m->num_inputs = 0;
    for (int v = 0; v < m->num_views && done; v++) {
        reading r = { { 0 }, { 0 } };
        done = add_readings(m, &m->views[v], 0, &r);
    }
    bool has_shape = false;
    for (int i = 0; i < m->num_inputs; i++) {
        has_shape |= weft_trace_layout(m->known->trace, m->source_values[m->input_sources[i]])->ndim > 0;
    }
    return done && has_shape;
}

bool weft_stencil_attributes(const weft_stencil_making *m, weft_attributes *attributes)
{
    bool known[WEFT_MAX_DIMS] = { false }, fits = true; /* by dimension: some input has it as it is */
    *attributes = (weft_attributes){ .type = m->output->dtype };
    for (int i = 0; i < m->num_inputs && fits; i++) {
        const weft_layout *from = weft_trace_layout(m->known->trace, m->source_values[m->input_sources[i]]);
        for (int d = 0; d < from->ndim && fits; d++) {
            int64_t before = -m->low[i][d], after = m->high[i][d];
            bool same = from->shape[d] == m->output->shape[d] && (!is_divided(m, d) || (before == 0 && after == 0));
            fits = attributes->num_numbers < WEFT_MAX_ATTRIBUTES && before > -MOST_REACH && before < MOST_REACH && after > -MOST_REACH &&
                   after < MOST_REACH;
            if (fits) {
                attributes->numbers[attributes->num_numbers++] = same ? WEFT_STENCIL_SAME : weft_stencil_reach(before, after);
            }
            known[d] |= same;
        }
    }
    /* In the order of the rule's letters: those of the first input with dimensions, which has all of them. */
    for (int d = 0; d < m->output->ndim; d++) {
        if (!known[d]) {
            attributes->sizes[attributes->num_sizes++] = m->output->shape[d];
        }
    }
    return fits;
}
