/* The kernels around cuDNN's gradients of attention, against loops: equal bits. */
#include "codelets/attention.h"
#include "codelets/cuda/dnn.h"
#include "codelets/half.h"
#include "fast_attention.h"
#include "view_cases.h"

#define CASES share_of(200)

static float widened(weft_dtype type, uint16_t number)
{
    return type == WEFT_BF16 ? weft_bf16_to_f32(number) : weft_f16_to_f32(number);
}

static uint16_t narrowed(weft_dtype type, float number)
{
    return type == WEFT_BF16 ? weft_f32_to_bf16(number) : weft_f32_to_f16(number);
}

static uint16_t *halves(int k)
{
    return (uint16_t *)(void *)memory.host[k];
}

static float *floats(int k)
{
    return (float *)(void *)memory.host[k];
}

/* ---- rows of a given product --------------------------------------------------------------------------- */

enum { RESULTS, LOG_SUMS, GRADIENT, STATISTICS };

static int64_t largest_in(const float *row, int64_t width)
{
    int64_t at = -1;
    for (int64_t i = 0; i < width; i++) {
        if (fabsf(row[i]) > 0 && (at < 0 || fabsf(row[i]) > fabsf(row[at]))) {
            at = i;
        }
    }
    return at;
}

/* Divides `rest` by the largest element, then what the rounding left by the next, and so on. */
static void expect_row(weft_dtype type, float rest, const uint16_t *gradient, int64_t width, uint16_t *result)
{
    float row[256];
    for (int64_t i = 0; i < width; i++) {
        row[i] = widened(type, gradient[i]);
        result[i] = 0;
    }
    for (int turn = 0; turn < 3; turn++) {
        const int64_t at = largest_in(row, width);
        if (at < 0) {
            return;
        }
        float quotient = widened(type, narrowed(type, rest / row[at]));
        if (isinf(quotient)) {
            quotient = copysignf(type == WEFT_F16 ? 65504.0f : 0x1.fep127f, quotient);
        }
        result[at] = narrowed(type, quotient);
        rest -= row[at] * quotient;
        row[at] = 0;
    }
}

/* Numbers of which some are equal, 0 or NaN; some rows have none but these. */
static void fill_gradient(weft_dtype type, int64_t width)
{
    const int64_t count = (int64_t)memory.bytes / 2;
    bool empty = false;
    for (int64_t i = 0; i < count; i++) {
        empty = i % width == 0 ? below(9) == 0 : empty;
        const int64_t which = below(12);
        const float number = which == 0 ? NAN : which == 1 ? -0.0f : which < 4 ? 0.75f : (float)(below(2001) - 1000) / 256;
        halves(GRADIENT)[i] = narrowed(type, empty && which > 1 ? 0 : number);
    }
    send_again(GRADIENT);
}

static void check_rows(weft_dtype type, int64_t width, int64_t shift)
{
    const int64_t shared = 1 + below(3), rows = 1 + below(9), gap = shift == 0 ? 8 * below(2) : below(9);
    const weft_dnn_sizes sizes = { .type = type, .groups = 2, .shared = shared, .rows = rows, .width = width,
                                   .result_step = rows * width + gap, .row_step = 2 * rows + 2 * below(2) };
    const weft_dnn_gradients g = { .sizes = sizes,
                                   .gradient = (const uint16_t *)memory.device[GRADIENT] + shift,
                                   .statistics = memory.device[STATISTICS] };
    const float scale = below(4) == 0 ? 60000 : 1;
    fill_gradient(type, width);
    for (int64_t i = 0; i < (int64_t)memory.bytes / 4; i++) {
        floats(STATISTICS)[i] = scale * (float)(below(200001) - 100000) / 4099;
    }
    send_again(STATISTICS);
    fill_at_random(RESULTS, WEFT_BF16);
    fill_at_random(LOG_SUMS, WEFT_F32);
    for (int64_t line = 0; line < 2 * shared * rows; line++) {
        const int64_t head = line / rows, row = line % rows;
        const float *statistics = floats(STATISTICS) + head * sizes.row_step + row * WEFT_ATTENTION_STATISTICS;
        expect_row(type, statistics[WEFT_ATTENTION_PRODUCT], halves(GRADIENT) + shift + head * sizes.result_step + row * width, width,
                   halves(RESULTS) + shift + line * width);
        floats(LOG_SUMS)[line] = statistics[WEFT_ATTENTION_LOG_SUM];
    }
    uint16_t *results = (uint16_t *)memory.device[RESULTS] + shift;
    assert_int_equal(weft_dnn_prepare_rows(&g, results, memory.device[LOG_SUMS], &memory.queue), 0);
    compare("rows", RESULTS, type, 0);
    compare("log-sums", LOG_SUMS, WEFT_F32, 0);
}

void test_prepared_rows(void **state)
{
    (void)state;
    static const int64_t widths[] = { 8, 16, 24, 40, 64, 72, 128, 136, 256, 5, 61, 100 };
    enum { WIDTHS = sizeof(widths) / sizeof(widths[0]) };
    for (int i = 0; i < 6 * WIDTHS; i++) {
        check_rows(i % 2 == 0 ? WEFT_BF16 : WEFT_F16, widths[i / 2 % WIDTHS], i / 2 / WIDTHS == 0 ? 0 : i / 2 / WIDTHS == 1 ? 8 : 1);
    }
}

/* ---- numbers to where they are wanted ------------------------------------------------------------------ */

enum { TO, FROM };

static void check_put(int64_t columns)
{
    static const int64_t shifts[] = { 0, 0, 4, 2, 1 };
    const int64_t from = shifts[below(5)], to = shifts[below(5)], row = columns + (below(2) == 0 ? 0 : shifts[below(5)]);
    weft_dnn_put put = { .type = below(2) == 0 ? WEFT_BF16 : WEFT_F16, .heads = 1 + below(4), .rows = 1 + below(6), .columns = columns,
                         .to_row = row, .adds = below(2) == 0 };
    put.to_step = put.rows * row + (below(2) == 0 ? 0 : shifts[below(5)]);
    put.from = (const uint16_t *)memory.device[FROM] + from;
    put.to = (float *)memory.device[TO] + to;
    memory.calm = true;
    fill_at_random(FROM, put.type);
    fill_at_random(TO, WEFT_F32);
    for (int64_t i = 0; i < put.heads * put.rows * columns; i++) {
        const int64_t line = i / columns, place = line / put.rows * put.to_step + line % put.rows * row + i % columns;
        const float number = widened(put.type, halves(FROM)[from + i]);
        floats(TO)[to + place] = put.adds ? floats(TO)[to + place] + number : number;
    }
    assert_int_equal(weft_dnn_put_values(&put, &memory.queue), 0);
    compare("put", TO, WEFT_F32, 0);
}

void test_put_values(void **state)
{
    (void)state;
    static const int64_t columns[] = { 64, 8, 4, 12, 1, 7, 30, 128 };
    for (int i = 0; i < CASES; i++) {
        check_put(columns[i % 8]);
    }
}
