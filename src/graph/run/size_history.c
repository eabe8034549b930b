/* Relations that have held in all calls. */
#include "graph/run/shapes.h"

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b != 0) {
        int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static void note_size(weft_size_history *h, int64_t size, bool is_first)
{
    h->changed = !is_first && (h->changed || size != h->min);
    h->min = is_first || size < h->min ? size : h->min;
    h->max = is_first || size > h->max ? size : h->max;
    h->divisor = is_first ? size : common_divisor(h->divisor, size);
}

/* A second x determines the line. */
static void note_point(weft_size_line *line, int64_t x, int64_t y, bool is_first)
{
    if (is_first) {
        *line = (weft_size_line){ .x = x, .y = y, .num_points = 1 };
    } else if (line->num_points == 1 && x != line->x) {
        line->broken = line->broken || (y - line->y) % (x - line->x) != 0;
        line->a = line->broken ? 0 : (y - line->y) / (x - line->x);
        int64_t part;
        line->broken = line->broken || !weft_multiply_sized(line->a, x, &part) || part == INT64_MIN || !weft_add_sized(y, -part, &line->b);
        line->other = x;
        line->num_points = 2;
    } else if (line->num_points == 1) {
        line->broken = line->broken || y != line->y;
    } else if (!line->broken) {
        int64_t part;
        line->broken = !weft_multiply_sized(line->a, x, &part) || !weft_add_sized(part, line->b, &part) || part != y;
        line->num_points += x != line->x && x != line->other;
    }
}

void weft_shape_note(weft_shape_history *history, int count, const int64_t sizes[])
{
    bool is_first = history->num_calls++ == 0;
    history->num_sizes = count < WEFT_SHAPE_TRACKED ? count : WEFT_SHAPE_TRACKED;
    for (int i = 0; i < history->num_sizes; i++) {
        note_size(&history->sizes[i], sizes[i], is_first);
        for (int k = 0; k < i; k++) {
            note_point(&history->lines[i][k], sizes[k], sizes[i], is_first);
        }
    }
}

static bool always_equal(const weft_shape_history *history, int y, int x)
{
    const weft_size_line *line = &history->lines[y][x];
    return !line->broken && line->num_points >= 2 && line->a == 1 && line->b == 0;
}

int weft_shape_symbol(const weft_shape_history *history, int size)
{
    int symbols = 0, numbers[WEFT_SHAPE_TRACKED] = { 0 };
    for (int i = 0; i <= size && i < history->num_sizes; i++) {
        numbers[i] = -1;
        for (int k = 0; k < i && numbers[i] < 0 && history->sizes[i].changed; k++) {
            numbers[i] = history->sizes[k].changed && always_equal(history, i, k) ? numbers[k] : -1;
        }
        numbers[i] = history->sizes[i].changed && numbers[i] < 0 ? symbols++ : numbers[i];
    }
    return size < history->num_sizes ? numbers[size] : -1;
}

int weft_shape_line(const weft_shape_history *history, int size, int64_t *a, int64_t *b)
{
    for (int x = 0; x < size && size < history->num_sizes; x++) {
        const weft_size_line *line = &history->lines[size][x];
        if (history->sizes[x].changed && !line->broken && line->num_points >= 3 && line->a != 0) {
            *a = line->a;
            *b = line->b;
            return x;
        }
    }
    return -1;
}
