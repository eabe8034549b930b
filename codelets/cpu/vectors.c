#include "codelets/cpu/vectors.h"

#include <string.h>

#include "codelets/convert.h"

/* Vector 0, if contiguous vectors of rows follow each other in memory: then no vector is searched for, which takes divisions. */
static char *find_whole(const weft_vectors *v)
{
    int64_t together;
    if (v->first == 0 || v->step != 1 || v->count == 0 || v->length == 0 || v->view->row_elements != v->outer * v->length) {
        return NULL;
    }
    char *rows = weft_view_row(v->view, 0, &together);
    return together < weft_view_rows(v->view) ? NULL : rows;
}

weft_vectors weft_vectors_along(const weft_view *view, int first, int last)
{
    weft_vectors v = { .view = view, .first = first, .count = 1, .length = 1, .step = 1, .outer = 1 };
    for (int d = 0; d < view->ndim; d++) {
        v.length *= d >= first && d <= last ? view->extent[d] : 1;
        v.count *= d >= first && d <= last ? 1 : view->extent[d];
        v.step *= d > last ? view->extent[d] : 1;
        v.outer *= d >= 1 && d < first ? view->extent[d] : 1;
    }
    v.per_row = v.length;
    if (first == 0 && view->ndim > 0) {
        v.per_row = v.step == 0 ? 0 : view->row_elements / v.step;
    }
    v.whole = find_whole(&v);
    return v;
}

/* The first element of a vector that does not extend over all rows. */
static char *vector_at(const weft_vectors *v, int64_t index)
{
    if (v->whole != NULL) {
        return v->whole + (size_t)(index * v->length) * weft_dtype_size(v->view->dtype);
    }
    int64_t place = index / v->step, row = place / v->outer;
    int64_t element = place % v->outer * v->length * v->step + index % v->step;
    return (char *)weft_view_row(v->view, row, NULL) + (size_t)element * weft_dtype_size(v->view->dtype);
}

/* The vector's address if contiguous and in the type of the arithmetic; else NULL. */
static void *direct(const weft_vectors *v, weft_dtype arithmetic, int64_t index)
{
    if (v->view->dtype != arithmetic || (v->step != 1 && v->length != 1)) {
        return NULL;
    }
    if (v->first > 0) {
        return vector_at(v, index);
    }
    int64_t together;
    char *rows = weft_view_row(v->view, 0, &together);
    return together < weft_view_rows(v->view) ? NULL : rows + (size_t)index * weft_dtype_size(arithmetic);
}

/* Converts the vector's elements from or to an array. */
static void convert(const weft_vectors *v, weft_dtype arithmetic, int64_t index, void *target,
                    const void *source)
{
    weft_dtype type = v->view->dtype;
    int64_t rows = v->first > 0 ? 1 : weft_view_rows(v->view);
    for (int64_t row = 0, together = 1; row < rows; row += together) {
        char *place = v->first > 0 ? vector_at(v, index)
                                   : (char *)weft_view_row(v->view, row, &together) +
                                         (size_t)index * weft_dtype_size(type);
        size_t offset = (size_t)(row * v->per_row) * weft_dtype_size(arithmetic);
        if (source == NULL) {
            weft_load(arithmetic, (char *)target + offset, type, place, v->step, together * v->per_row);
        } else {
            weft_store(type, place, v->step, arithmetic, (const char *)source + offset,
                       together * v->per_row);
        }
    }
}

/* Prefetches a vector before it is read: the processor's own prefetcher begins anew in each page of 4 KB. */
static void fetch(const char *vector, int64_t bytes)
{
    enum { LINE = 64, MOST = 16384 }; /* more would push the current vector out of the first cache */
    for (int64_t byte = 0; byte < bytes && bytes <= MOST; byte += LINE) {
        __builtin_prefetch(vector + byte);
    }
}

const void *weft_vector_load(const weft_vectors *v, weft_dtype arithmetic, int64_t index, void *buffer)
{
    if (v->length == 0) {
        return buffer;
    }
    const char *place = direct(v, arithmetic, index);
    if (place == NULL) {
        convert(v, arithmetic, index, buffer, NULL);
        return buffer;
    }
    if (v->whole != NULL && index + 1 < v->count) {
        int64_t bytes = v->length * (int64_t)weft_dtype_size(arithmetic);
        fetch(place + bytes, bytes);
    }
    return place;
}

void *weft_vector_target(const weft_vectors *v, weft_dtype arithmetic, int64_t index, void *buffer)
{
    void *place = v->length == 0 ? NULL : direct(v, arithmetic, index);
    return place != NULL ? place : buffer;
}

void weft_vector_store(const weft_vectors *v, weft_dtype arithmetic, int64_t index, const void *values)
{
    if (v->length > 0 && direct(v, arithmetic, index) == NULL) {
        convert(v, arithmetic, index, NULL, values);
    }
}

static char *element_at(const weft_view *view, int64_t index)
{
    return (char *)weft_view_row(view, index / view->row_elements, NULL) +
           (size_t)(index % view->row_elements) * weft_dtype_size(view->dtype);
}

double weft_view_value(const weft_view *view, int64_t index)
{
    double value;
    weft_load(WEFT_F64, &value, view->dtype, element_at(view, index), 1, 1);
    return value;
}

int64_t weft_view_whole(const weft_view *view, int64_t index)
{
    int64_t value;
    weft_load(WEFT_I64, &value, view->dtype, element_at(view, index), 1, 1);
    return value;
}

void weft_view_set(const weft_view *view, int64_t index, double value)
{
    weft_store(view->dtype, element_at(view, index), 1, WEFT_F64, &value, 1);
}

/* Where element `index` is, and how many elements from it on lie together. */
static char *run_at(const weft_view *view, int64_t index, int64_t *count)
{
    int64_t row = index / view->row_elements, within = index % view->row_elements, rows;
    char *place = weft_view_row(view, row, &rows);
    *count = rows * view->row_elements - within;
    return place + (size_t)within * weft_dtype_size(view->dtype);
}

void weft_view_load_part(const weft_view *view, weft_dtype arithmetic, int64_t first, int64_t count, void *target)
{
    for (int64_t done = 0, together; done < count; done += together) {
        const char *place = run_at(view, first + done, &together);
        together = together < count - done ? together : count - done;
        weft_load(arithmetic, (char *)target + (size_t)done * weft_dtype_size(arithmetic), view->dtype, place, 1, together);
    }
}

void weft_view_store_part(const weft_view *view, weft_dtype arithmetic, int64_t first, int64_t count, const void *source)
{
    for (int64_t done = 0, together; done < count; done += together) {
        char *place = run_at(view, first + done, &together);
        together = together < count - done ? together : count - done;
        weft_store(view->dtype, place, 1, arithmetic, (const char *)source + (size_t)done * weft_dtype_size(arithmetic), together);
    }
}

void weft_view_load(const weft_view *view, weft_dtype arithmetic, void *target)
{
    char *place = target;
    for (int64_t row = 0, together; row < weft_view_rows(view); row += together) {
        const void *from = weft_view_row(view, row, &together);
        weft_load(arithmetic, place, view->dtype, from, 1, together * view->row_elements);
        place += (size_t)(together * view->row_elements) * weft_dtype_size(arithmetic);
    }
}

void weft_view_store(const weft_view *view, weft_dtype arithmetic, const void *source)
{
    const char *place = source;
    for (int64_t row = 0, together; row < weft_view_rows(view); row += together) {
        void *to = weft_view_row(view, row, &together);
        weft_store(view->dtype, to, 1, arithmetic, place, together * view->row_elements);
        place += (size_t)(together * view->row_elements) * weft_dtype_size(arithmetic);
    }
}

void weft_view_set_to_zero(const weft_view *view)
{
    for (int64_t row = 0, together; row < weft_view_rows(view); row += together) {
        void *to = weft_view_row(view, row, &together);
        memset(to, 0, (size_t)(together * view->row_elements) * weft_dtype_size(view->dtype));
    }
}

void weft_kernel_lacks_memory(const weft_kernel_call *call, weft_problem problem, int64_t value)
{
    weft_problem_memory(call->error, problem, value);
    for (int o = 0; o < call->num_outputs; o++) {
        weft_view_set_to_zero(&call->outputs[o]);
    }
}
