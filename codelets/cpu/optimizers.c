/* A step is a sequence of elementwise updates per block, which stays in the first-level cache. */
#include "codelets/optimizers.h"

#include "codelets/convert.h"
#include "codelets/cpu/clones.h"
#include "codelets/elementwise.h"
#include "codelets/expressions.h"

enum { BLOCK = 512, MAX_STATES = 3, MAX_TENSORS = 2 + MAX_STATES, MAX_READ = WEFT_MAX_ELEMENTWISE_INPUTS };

/* One update: target = expression(read[0], ...), by operand numbers of the step. */
typedef struct update {
    weft_kernel_id expression;
    int target, num_read, read[MAX_READ];
    double scalars[4];
} update;

typedef union block {
    double f64[BLOCK];
    float f32[BLOCK];
} block;

static weft_dtype arithmetic_of(const update *u, const weft_view *const tensors[])
{
    weft_dtype type = WEFT_F32;
    for (int i = 0; i < u->num_read; i++) {
        type = tensors[u->read[i]]->dtype == WEFT_F64 ? WEFT_F64 : type;
    }
    return type;
}

/* `n` elements, at most a block. */
static void run_update(const update *u, const weft_view *const tensors[], void *const at[], int64_t n)
{
    weft_dtype arithmetic = arithmetic_of(u, tensors), type = tensors[u->target]->dtype;
    const weft_elementwise_loops *loops =
        &weft_elementwise_loops_table[u->expression - WEFT_KERNEL_ELEMENTWISE];
    block loaded[MAX_READ], result;
    const void *read[MAX_READ] = { NULL };
    for (int i = 0; i < u->num_read; i++) {
        const weft_view *tensor = tensors[u->read[i]];
        read[i] = at[u->read[i]];
        if (tensor->dtype != arithmetic) {
            weft_load(arithmetic, &loaded[i], tensor->dtype, read[i], 1, n);
            read[i] = &loaded[i];
        }
    }
    void *target = type == arithmetic ? at[u->target] : &result;
    (arithmetic == WEFT_F64 ? loops->f64 : loops->f32)(target, read[0], read[1], read[2], n, u->scalars);
    if (type != arithmetic) {
        weft_store(type, at[u->target], 1, arithmetic, &result, n);
    }
}

/* Number of contiguous elements in all tensors from row `row` on; `at` gets their addresses. */
static int64_t find_run(const weft_view *const tensors[], int count, int64_t row, void *at[], int64_t *rows)
{
    *rows = INT64_MAX;
    for (int k = 0; k < count; k++) {
        int64_t own;
        at[k] = weft_view_row(tensors[k], row, &own);
        *rows = own < *rows ? own : *rows;
    }
    return *rows * (tensors[0]->ndim == 0 ? 1 : tensors[0]->row_elements);
}

/* Takes the step on n elements of each tensor, at most a block, from these addresses on. */
typedef void (*block_function)(const void *step, const weft_view *const tensors[], void *const at[], int64_t n);

/* The outputs' tensors come first. */
static void run_blocks(const weft_kernel_call *call, block_function function, const void *step)
{
    const weft_view *tensors[MAX_TENSORS];
    int count = call->num_outputs + 1;
    for (int o = 0; o < call->num_outputs; o++) {
        tensors[o] = &call->outputs[o];
    }
    tensors[call->num_outputs] = &call->inputs[0];
    for (int64_t row = 0, rows; row < weft_view_rows(tensors[0]); row += rows) {
        void *at[MAX_TENSORS];
        int64_t left = find_run(tensors, count, row, at, &rows);
        for (int64_t n; left > 0; left -= n) {
            n = left < BLOCK ? left : BLOCK;
            function(step, tensors, at, n);
            for (int k = 0; k < count; k++) {
                at[k] = (char *)at[k] + (size_t)n * weft_dtype_size(tensors[k]->dtype);
            }
        }
    }
}

/* ---- sequences of updates ------------------------------------------------------------------------------ */

typedef struct sequence {
    const update *all;
    int count;
} sequence;

static void run_updates(const void *step, const weft_view *const tensors[], void *const at[], int64_t n)
{
    const sequence *own = step;
    for (int i = 0; i < own->count; i++) {
        run_update(&own->all[i], tensors, at, n);
    }
}

static void run_step(const weft_kernel_call *call, const update all[], int count)
{
    run_blocks(call, run_updates, &(sequence){ all, count });
}

void weft_kernel_adam(const weft_kernel_call *call)
{
    enum { PARAMETER, FIRST, SECOND, GRADIENT };
    const double *s = call->scalars, decay = s[WEFT_ADAM_DECAY];
    const double beta1 = s[WEFT_ADAM_BETA1], beta2 = s[WEFT_ADAM_BETA2];
    const bool decays = decay != 0;
    const update updates[] = {
        { decays ? WEFT_KERNEL_lerp_decayed : WEFT_KERNEL_lerp,
          FIRST,
          decays ? 3 : 2,
          { FIRST, GRADIENT, PARAMETER },
          { 1 - beta1, beta1, decay } },
        { decays ? WEFT_KERNEL_average_square_decayed : WEFT_KERNEL_average_square,
          SECOND,
          decays ? 3 : 2,
          { SECOND, GRADIENT, PARAMETER },
          { 1 - beta2, beta2, decay } },
        { WEFT_KERNEL_adam_update,
          PARAMETER,
          3,
          { PARAMETER, FIRST, SECOND },
          { s[WEFT_ADAM_RATE], s[WEFT_ADAM_EPSILON], s[WEFT_ADAM_SCALE], s[WEFT_ADAM_FACTOR] } },
    };
    run_step(call, updates, 3);
}

void weft_kernel_sgd_momentum(const weft_kernel_call *call)
{
    enum { PARAMETER, MOMENTUM, GRADIENT };
    const double *s = call->scalars;
    const bool nesterov = call->numbers[0] != 0;
    update updates[] = {
        { WEFT_KERNEL_momentum,
          MOMENTUM,
          3,
          { MOMENTUM, GRADIENT, PARAMETER },
          { s[WEFT_SGD_KEPT], s[WEFT_SGD_ADDED], s[WEFT_SGD_DECAY] } },
        { WEFT_KERNEL_add_scaled, PARAMETER, 2, { PARAMETER, MOMENTUM }, { -s[WEFT_SGD_RATE] } },
    };
    if (nesterov) {
        updates[1] = (update){ WEFT_KERNEL_nesterov_update,
                               PARAMETER,
                               3,
                               { PARAMETER, GRADIENT, MOMENTUM },
                               { s[WEFT_SGD_RATE], s[WEFT_SGD_DECAY], s[WEFT_SGD_AHEAD] } };
    }
    run_step(call, updates, 2);
}

/* ---- rows of optimizers.inc ---------------------------------------------------------------------------------------- */

/* tensors: the parameter, three states, the gradient; those that the row has not are not used. */
typedef void (*row_loop)(void *const tensors[], int64_t n, const double scalars[]);

#define LOOP(name, T_, states, ...)                                                                          \
    WEFT_CLONES static void name##_##T_(void *const tensors[], int64_t n, const double scalars[])            \
    {                                                                                                        \
        typedef T_ T;                                                                                        \
        const T rate = (T)scalars[WEFT_ROW_RATE], epsilon = (T)scalars[WEFT_ROW_EPSILON];                    \
        const T a = (T)scalars[WEFT_ROW_A], b = (T)scalars[WEFT_ROW_B];                                      \
        const T c = (T)scalars[WEFT_ROW_C], d = (T)scalars[WEFT_ROW_D];                                      \
        (void)epsilon, (void)a, (void)b, (void)c, (void)d;                                                   \
        T *restrict ps = tensors[0], *restrict xs = tensors[1];                                              \
        T *restrict ys = tensors[2], *restrict zs = tensors[3];                                              \
        const T *restrict gs = tensors[4];                                                                   \
        for (int64_t i = 0; i < n; i++) { /* vectorised */                                                   \
            T p = ps[i], g = gs[i], x = xs[i];                                                               \
            T y = (states) > 1 ? ys[i] : 0, z = (states) > 2 ? zs[i] : 0;                                    \
            __VA_ARGS__                                                                                      \
            ps[i] = p;                                                                                       \
            xs[i] = x;                                                                                       \
            if ((states) > 1) {                                                                              \
                ys[i] = y;                                                                                   \
            }                                                                                                \
            if ((states) > 2) {                                                                              \
                zs[i] = z;                                                                                   \
            }                                                                                                \
        }                                                                                                    \
    }
#define WEFT_OPTIMIZER(name, states, ...)                                                                    \
    LOOP(name, double, states, __VA_ARGS__)                                                                  \
    LOOP(name, float, states, __VA_ARGS__)
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER

static const row_loop loops[][2] = {
#define WEFT_OPTIMIZER(name, states, ...) { name##_double, name##_float },
#include "codelets/optimizers.inc"
#undef WEFT_OPTIMIZER
};

/* ---- weight decay -------------------------------------------------------------------------------------- */

#define DECAY(T)                                                                                             \
    WEFT_CLONES static void decay_##T(void *parameter, void *gradient, int64_t n, double decay, double factor) \
    {                                                                                                        \
        T *restrict p = parameter, *restrict g = gradient;                                                   \
        const T by = (T)decay, times = (T)factor;                                                            \
        for (int64_t i = 0; i < n && by != 0; i++) { /* vectorised */                                        \
            g[i] += by * p[i];                                                                               \
        }                                                                                                    \
        for (int64_t i = 0; i < n && times != 1; i++) { /* vectorised */                                     \
            p[i] *= times;                                                                                   \
        }                                                                                                    \
    }
DECAY(double)
DECAY(float)

/* One call: `count` tensors, the gradient last. */
typedef struct stepper {
    int count;
    weft_dtype arithmetic;
    double decay, factor;
    row_loop loop;
    const double *scalars;
} stepper;

static void run_row(const void *step, const weft_view *const tensors[], void *const at[], int64_t n)
{
    const stepper *s = step;
    block loaded[MAX_TENSORS];
    void *used[MAX_TENSORS] = { NULL };
    for (int k = 0; k < s->count; k++) {
        const bool gradient = k == s->count - 1;
        void **to = &used[gradient ? MAX_TENSORS - 1 : k];
        *to = at[k];
        if (tensors[k]->dtype != s->arithmetic || gradient) { /* rows may change the gradient's copy */
            weft_load(s->arithmetic, &loaded[k], tensors[k]->dtype, at[k], 1, n);
            *to = &loaded[k];
        }
    }
    (s->arithmetic == WEFT_F64 ? decay_double : decay_float)(used[0], used[MAX_TENSORS - 1], n, s->decay, s->factor);
    s->loop(used, n, s->scalars);
    for (int k = 0; k < s->count - 1; k++) {
        if (used[k] != at[k]) {
            weft_store(tensors[k]->dtype, at[k], 1, s->arithmetic, used[k], n);
        }
    }
}

void weft_kernel_optimizer(const weft_kernel_call *call)
{
    const bool apart = call->numbers[1] != 0;
    weft_dtype arithmetic = call->inputs[0].dtype == WEFT_F64 ? WEFT_F64 : WEFT_F32;
    for (int o = 0; o < call->num_outputs; o++) {
        arithmetic = call->outputs[o].dtype == WEFT_F64 ? WEFT_F64 : arithmetic;
    }
    run_blocks(call, run_row,
               &(stepper){ .count = call->num_outputs + 1,
                           .arithmetic = arithmetic,
                           .decay = apart ? 0 : call->scalars[WEFT_ROW_DECAY],
                           .factor = apart ? call->scalars[WEFT_ROW_FACTOR] : 1,
                           .loop = loops[call->numbers[0]][arithmetic == WEFT_F32],
                           .scalars = call->scalars });
}
