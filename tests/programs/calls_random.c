/* Random numbers, and their states: random.h. Computed from the documentation alone: the seed, the number
 * of the operation and the index in the global tensor. */
#include "movement.h"
#include "ops/backward.h"
#include "sums.h"

/* ---- Philox4x32-10 (Salmon, Moraes, Dror and Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, 2011) ---- */

/* Word number `word` of all that a state gives for one operation. */
static uint32_t word_of(weft_random_state state, uint64_t word)
{
    uint64_t block = word / 4;
    uint32_t c[4] = { (uint32_t)block, (uint32_t)(block >> 32), (uint32_t)state.offset,
                      (uint32_t)(state.offset >> 32) };
    uint32_t key[2] = { (uint32_t)state.seed, (uint32_t)(state.seed >> 32) };
    for (int round = 0; round < 10; round++) {
        uint64_t left = UINT64_C(0xD2511F53) * c[0], right = UINT64_C(0xCD9E8D57) * c[2];
        uint32_t next[4] = { (uint32_t)(right >> 32) ^ c[1] ^ key[0], (uint32_t)right,
                             (uint32_t)(left >> 32) ^ c[3] ^ key[1], (uint32_t)left };
        for (int i = 0; i < 4; i++) {
            c[i] = next[i];
        }
        key[0] += 0x9E3779B9u;
        key[1] += 0xBB67AE85u;
    }
    return c[word % 4];
}

static uint64_t wide_of(weft_random_state state, int64_t i)
{
    return (uint64_t)word_of(state, 2 * (uint64_t)i + 1) << 32 | word_of(state, 2 * (uint64_t)i);
}

/* On [0, 1), with as many digits as the arithmetic has. */
static double unit_of(weft_random_state state, weft_dtype dtype, int64_t i)
{
    return dtype == WEFT_F64 ? (double)(wide_of(state, i) >> 11) * 0x1p-53
                             : (double)(word_of(state, (uint64_t)i) >> 8) * 0x1p-24;
}

double chance_of(weft_random_state state, int64_t i)
{
    return (double)word_of(state, (uint64_t)i) * 0x1p-32;
}

/* Box and Muller. */
static double normal_of(weft_random_state state, weft_dtype dtype, int64_t i)
{
    int64_t first = i & ~INT64_C(1);
    double radius = sqrt(-2 * log(1 - unit_of(state, dtype, first)));
    double angle = 8 * atan(1) * unit_of(state, dtype, first + 1);
    return radius * (i == first ? cos(angle) : sin(angle));
}

/* The state in use, which has seen one operation more now. */
weft_random_state draw(scene *s)
{
    weft_random_state *state = &s->states->states[s->states->in_use], now = *state;
    state->offset++;
    return now;
}

/* ---- new tensors --------------------------------------------------------------------------------------- */

CALLS(rand, out[0] = weft_rand(dtype, ndim, shape, mesh, placements))
CALLS(randn, out[0] = weft_randn(dtype, ndim, shape, mesh, placements))
CALLS(rand_like, out[0] = weft_rand_like(in[0]))
CALLS(randn_like, out[0] = weft_randn_like(in[0]))
CALLS(randint, out[0] = weft_randint(dtype, whole[0], whole[1], ndim, shape, mesh, placements))
CALLS(randperm, out[0] = weft_randperm(whole[0], mesh, placements))
CALLS(bernoulli_scalar, out[0] = weft_bernoulli_scalar(dtype, real[0], ndim, shape, mesh, placements))
CALLS(bernoulli, out[0] = weft_bernoulli(in[0]))
CALLS(uniform_inplace, weft_uniform_inplace(in[0], real[0], real[1]))
CALLS(normal_inplace, weft_normal_inplace(in[0], real[0], real[1]))

static bool make_factory(maker *m, step *s, unsigned types)
{
    *s = step_of(s->operation, 0);
    s->mesh = any_mesh(m);
    s->dtype = any_type(m, types);
    s->ndim = any_shape(m, 0, MAX_TENSOR_DIMS, s->shape);
    any_placements(m, s->mesh, s->ndim, false, s->placements);
    any_cuts(m, s->mesh, s->ndim, s->shape, s->placements);
    return true;
}

static bool make_floats(maker *m, step *s)
{
    return make_factory(m, s, FLOATS);
}

static bool make_floats_like(maker *m, step *s)
{
    int a = choose_any(m, FLOATS, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    return a != NO_VALUE;
}

static bool make_redrawn(maker *m, step *s)
{
    int a = choose_target(m, FLOATS, 0, MAX_TENSOR_DIMS);
    *s = step_of(s->operation, 1, a);
    s->outputs[0] = a;
    s->num_reals = 2;
    s->reals[0] = (double)between(m, -3, 2);
    s->reals[1] = s->operation->name[0] == 'u' ? s->reals[0] + (double)below(m, 5) : (double)below(m, 5) / 2;
    return a != NO_VALUE;
}

/* The next number of a type of 16 bits towards zero: of those that are not negative. */
static double rounded_down(weft_dtype dtype, double x)
{
    double nearest = rounded(dtype, x);
    if (nearest <= x || digits_of(dtype) > 11) {
        return nearest;
    }
    int exponent = ilogb(nearest), least = dtype == WEFT_F16 ? -14 : -126;
    bool power = nearest == ldexp(1, exponent) && exponent > least;
    return nearest - ldexp(1, (exponent < least ? least : exponent) - digits_of(dtype) + 1 - power);
}

/* Uniform on [low, high); exact on [0, 1). */
static void draw_uniform(scene *s, dense *out, double low, double high)
{
    weft_random_state state = draw(s);
    low = rounded(out->dtype, low);
    high = rounded(out->dtype, high);
    for (int64_t i = 0; i < out->count; i++) {
        double value = low + (high - low) * unit_of(state, out->dtype, i);
        if (low == 0 && high == 1) {
            out->at[i].real = rounded_down(out->dtype, value);
        } else {
            set_number(s, out, i, value,
                       low == high ? 0 : 2 * epsilon_of(out->dtype) * (fabs(low) + fabs(high)));
        }
    }
}

static void draw_normal(scene *s, dense *out, double mean, double deviation)
{
    weft_random_state state = draw(s);
    double roundings = out->dtype == WEFT_F64 ? 40 : 80;
    for (int64_t i = 0; i < out->count; i++) {
        double value = normal_of(state, out->dtype, i),
               slack = roundings * epsilon_of(out->dtype) * (1 + fabs(value));
        set_number(s, out, i, mean + deviation * value,
                   deviation * slack + epsilon_of(out->dtype) * fabs(mean));
    }
}

/* The output of a step that makes one, or redraws or copies the shape of input 0. */
static dense *new_output(scene *s)
{
    const step *call = s->step;
    const dense *like = call->num_inputs > 0 ? s->in[0] : NULL;
    if (call->num_inputs > 0 && like == NULL) {
        return NULL;
    }
    weft_dtype dtype = like != NULL ? like->dtype : call->dtype;
    return like != NULL ? scene_output(s, 0, dtype, like->ndim, like->shape)
                        : scene_output(s, 0, dtype, call->ndim, call->shape);
}

static bool drawn_uniform(scene *s)
{
    dense *out = new_output(s);
    bool bounded = s->step->num_reals > 1;
    if (out == NULL || !is_floating(out->dtype) || (bounded && s->step->reals[0] > s->step->reals[1])) {
        return false;
    }
    draw_uniform(s, out, bounded ? s->step->reals[0] : 0, bounded ? s->step->reals[1] : 1);
    return true;
}

static bool drawn_normal(scene *s)
{
    dense *out = new_output(s);
    bool given = s->step->num_reals > 1;
    if (out == NULL || !is_floating(out->dtype) || (given && s->step->reals[1] < 0)) {
        return false;
    }
    draw_normal(s, out, given ? s->step->reals[0] : 0, given ? s->step->reals[1] : 1);
    return true;
}

static bool make_randint(maker *m, step *s)
{
    make_factory(m, s, INDICES | SHORT_INTEGERS | BIT(WEFT_U8) | BIT(WEFT_BOOL));
    bool truth = s->dtype == WEFT_BOOL, byte = lacks_sign(s->dtype);
    s->num_wholes = 2;
    s->wholes[0] = truth ? below(m, 2) : byte ? below(m, 9) : between(m, -9, 9);
    s->wholes[1] = truth ? 2 : s->wholes[0] + between(m, 1, 12);
    if (s->dtype == WEFT_I64 && one_in(m, 4)) {
        s->wholes[0] = INT64_MIN;
        s->wholes[1] = INT64_MAX;
    }
    return true;
}

/* The upper 64 bits of a product, 32 bits at a time. */
static uint64_t high_product(uint64_t a, uint64_t b)
{
    uint64_t low = (a & 0xffffffffu) * (b & 0xffffffffu), left = (a >> 32) * (b & 0xffffffffu);
    uint64_t right = (a & 0xffffffffu) * (b >> 32);
    uint64_t middle = (low >> 32) + (left & 0xffffffffu) + (right & 0xffffffffu);
    return (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32);
}

static bool drawn_whole(scene *s)
{
    dense *out = new_output(s);
    int64_t low = whole_of_call(s, 0), high = whole_of_call(s, 1);
    if (out == NULL || is_floating(out->dtype) || low >= high || wrapped(out->dtype, low) != low ||
        wrapped(out->dtype, high - 1) != high - 1) {
        return false;
    }
    weft_random_state state = draw(s);
    for (int64_t i = 0; i < out->count; i++) {
        out->at[i].whole =
            (int64_t)((uint64_t)low + high_product(wide_of(state, i), (uint64_t)high - (uint64_t)low));
    }
    return true;
}

static bool make_randperm(maker *m, step *s)
{
    *s = step_of(s->operation, 0);
    s->mesh = any_mesh(m);
    s->num_wholes = 1;
    s->wholes[0] = below(m, 40);
    s->ndim = 1;
    any_placements(m, s->mesh, 1, false, s->placements);
    return true;
}

static uint64_t mixed(uint64_t x)
{
    x = (x ^ x >> 32) * UINT64_C(0xD2511F5309A2B4C5);
    x = (x ^ x >> 29) * UINT64_C(0x9E3779B97F4A7C15);
    return x ^ x >> 32;
}

/* Twelve rounds of a Feistel network on the next power of two that is at least 2 n, and at least 256; what
 * lies beyond n goes through it again. */
static bool drawn_order(scene *s)
{
    int64_t n = whole_of_call(s, 0);
    if (n < 0) {
        return false;
    }
    weft_random_state state = draw(s);
    dense *out = scene_output(s, 0, WEFT_I64, 1, &n);
    int bits = 8;
    for (; (INT64_C(1) << bits) < 2 * n; bits++) {
    }
    int right_bits = bits / 2;
    uint64_t right_mask = (UINT64_C(1) << right_bits) - 1,
             left_mask = (UINT64_C(1) << (bits - right_bits)) - 1;
    for (int64_t i = 0; i < n; i++) {
        uint64_t x = (uint64_t)i;
        do {
            uint64_t left = x >> right_bits, right = x & right_mask;
            for (int round = 0; round < 12; round += 2) {
                left ^= mixed(right ^ wide_of(state, round)) & left_mask;
                right ^= mixed(left ^ wide_of(state, round + 1)) & right_mask;
            }
            x = left << right_bits | right;
        } while (x >= (uint64_t)n);
        out->at[i].whole = (int64_t)x;
    }
    return true;
}

static bool make_bernoulli_scalar(maker *m, step *s)
{
    make_factory(m, s, ALL_TYPES);
    s->num_reals = 1;
    s->reals[0] = (double)below(m, 5) / 4;
    return true;
}

static bool make_bernoulli(maker *m, step *s)
{
    int p =
        choose_value(m, &(wish){ .types = FLOATS, .mesh = -1, .most = MAX_TENSOR_DIMS, .kind = VALUES_UNIT });
    *s = step_of(s->operation, 1, p);
    return p != NO_VALUE;
}

static bool drawn_truth(scene *s)
{
    const dense *p = s->step->num_inputs > 0 ? s->in[0] : NULL;
    dense *out = new_output(s);
    if (out == NULL ||
        (p == NULL && !(s->step->num_reals > 0 && s->step->reals[0] >= 0 && s->step->reals[0] <= 1)) ||
        (p != NULL && !is_floating(p->dtype))) {
        return false;
    }
    weft_random_state state = draw(s);
    for (int64_t i = 0; i < out->count; i++) {
        double probability = p == NULL ? s->step->reals[0] : p->at[i].real;
        if (!(probability >= 0 && probability <= 1)) {
            return false;
        }
        bool truth = chance_of(state, i) < probability;
        out->at[i] = converted(out->dtype, WEFT_BOOL, (element){ .whole = truth });
    }
    distrust_vague(s, out);
    return true;
}

/* ---- dropout ------------------------------------------------------------------------------------------- */

CALLS(dropout, out[0] = weft_dropout(in[0], real[0], true, &out[1]))
CALLS(dropout2d, out[0] = weft_dropout2d(in[0], real[0], true, &out[1]))
CALLS(dropout_evaluating, out[0] = weft_dropout(in[0], real[0], false, NULL))
CALLS(dropout_backward, out[0] = weft_dropout_backward(in[0], in[1], real[0], true))

static bool make_dropout(maker *m, step *s)
{
    bool channels = s->operation->name[7] == '2';
    int a = choose_any(m, FLOATS, channels ? 2 : 0, MAX_TENSOR_DIMS);
    if (a == NO_VALUE) {
        return false;
    }
    const dense *x = value_of(m, a);
    bool backward = s->operation->name[7] == '_' && s->operation->name[8] == 'b';
    bool training = channels || s->operation->name[7] == '\0';
    int64_t shape[MAX_TENSOR_DIMS];
    for (int d = 0; d < x->ndim; d++) {
        shape[d] = one_in(m, 4) ? 1 : x->shape[d];
    }
    int mask = backward ? choose_like(m, a, BIT(WEFT_BOOL), x->ndim, shape) : NO_VALUE;
    *s = step_of(s->operation, backward ? 2 : 1, a, mask);
    s->num_outputs = training ? 2 : 1;
    s->outputs[1] = NO_VALUE;
    s->num_reals = 1;
    s->reals[0] = (double)below(m, 5) / 4;
    return !backward || mask != NO_VALUE;
}

/* The mask's element for element i of a, to which it broadcasts. */
static bool is_kept(const dense *a, const dense *mask, int64_t i)
{
    int64_t place = 0, stride = 1;
    for (int d = a->ndim - 1; d >= 0; d--) {
        place += mask->shape[d] == 1 ? 0 : i % a->shape[d] * stride;
        stride *= mask->shape[d];
        i /= a->shape[d];
    }
    return mask->at[place].whole != 0;
}

/* a times the mask, divided by the probability to keep an element. */
static bool scale_masked(scene *s, const dense *a, const dense *mask)
{
    double p = s->step->reals[0], factor = (double)(float)(p < 1 ? 1 / (1 - p) : 0);
    factor = a->dtype == WEFT_F64 ? (p < 1 ? 1 / (1 - p) : 0) : factor;
    dense *out = scene_output(s, 0, a->dtype, a->ndim, a->shape);
    for (int64_t i = 0; i < a->count; i++) {
        out->at[i].real = rounded(a->dtype, a->at[i].real * (is_kept(a, mask, i) ? factor : 0));
    }
    out->mass = dense_mass(a) * factor;
    out->unit = factor == nearbyint(factor) ? dense_unit(a) : 0;
    for (int64_t i = 0; i < a->count && a->partial; i++) {
        bool exact = out->mass <= out->unit * ldexp(1, digits_of(a->dtype));
        set_linear(s, out, i, out->at[i].real, 0, exact ? 0 : out->mass);
    }
    distrust_infinite(s, out);
    return true;
}

static bool dropped(scene *s)
{
    const dense *a = s->in[0];
    bool channels = s->step->operation->name[7] == '2';
    if (a == NULL || !is_floating(a->dtype) || s->step->num_reals < 1 || s->step->num_outputs != 2 ||
        (channels && a->ndim < 2)) {
        return false;
    }
    int64_t shape[MAX_TENSOR_DIMS];
    for (int d = 0; d < a->ndim; d++) {
        shape[d] = channels && d >= 2 ? 1 : a->shape[d];
    }
    weft_random_state state = draw(s);
    dense *mask = scene_output(s, 1, WEFT_BOOL, a->ndim, shape);
    for (int64_t i = 0; i < mask->count; i++) {
        mask->at[i].whole = chance_of(state, i) < 1 - s->step->reals[0];
    }
    return scale_masked(s, a, mask);
}

static bool not_dropped(scene *s)
{
    if (s->in[0] == NULL || !is_floating(s->in[0]->dtype)) {
        return false;
    }
    s->out[0] = dense_copy(s->arena, s->in[0]);
    return true;
}

static bool dropped_backward(scene *s)
{
    const dense *a = s->in[0], *mask = s->in[1];
    if (a == NULL || mask == NULL || !is_floating(a->dtype) || mask->dtype != WEFT_BOOL ||
        mask->ndim != a->ndim || s->step->num_reals < 1) {
        return false;
    }
    for (int d = 0; d < a->ndim; d++) {
        if (a->shape[d] != mask->shape[d] && mask->shape[d] != 1) {
            return false;
        }
    }
    return scale_masked(s, a, mask);
}

/* ---- states -------------------------------------------------------------------------------------------- */

CALLS(random_seed, weft_random_seed((uint64_t)whole[0]))
CALLS(random_state_use, weft_random_state_use(whole[0] == 0 ? NULL : whole[0] == 1 ? "state1" : "state2"))
CALLS(random_state_set, weft_random_state_set(whole[0] == 0   ? NULL
                                              : whole[0] == 1 ? "state1"
                                                              : "state2",
                                              (weft_random_state){ (uint64_t)whole[1], (uint64_t)whole[2] }))

static bool make_state(maker *m, step *s)
{
    *s = step_of(s->operation, 0);
    s->num_outputs = 0;
    s->num_wholes = 3;
    s->wholes[0] = below(m, MAX_STATES);
    s->wholes[1] = below(m, 100);
    s->wholes[2] = below(m, 3);
    return true;
}

static bool changed_state(scene *s)
{
    int64_t which = whole_of_call(s, 0);
    random_states *states = s->states;
    if (s->step->num_wholes < 3 || which < 0 || which >= MAX_STATES) {
        return false;
    }
    switch (s->step->operation->name[9]) {
    case 'e': /* random_seed */
        states->states[states->in_use] = (weft_random_state){ (uint64_t)which, 0 };
        break;
    default:
        if (s->step->operation->name[13] == 'u') {
            states->in_use = (int)which;
        } else {
            states->states[which] =
                (weft_random_state){ (uint64_t)s->step->wholes[1], (uint64_t)s->step->wholes[2] };
        }
    }
    return true;
}

/* ---- the table ----------------------------------------------------------------------------------------- */

const operation random_calls[] = {
    ROW(rand, make_floats, drawn_uniform, .weight = 6),
    ROW(randn, make_floats, drawn_normal, .weight = 3),
    ROW(rand_like, make_floats_like, drawn_uniform, .weight = 4),
    ROW(randn_like, make_floats_like, drawn_normal, .weight = 3),
    ROW(randint, make_randint, drawn_whole, .weight = 6),
    ROW(randperm, make_randperm, drawn_order, .weight = 5),
    ROW(bernoulli_scalar, make_bernoulli_scalar, drawn_truth, .weight = 5),
    ROW(bernoulli, make_bernoulli, drawn_truth, .weight = 5),
    ROW(uniform_inplace, make_redrawn, drawn_uniform, .flags = IN_PLACE, .weight = 5),
    ROW(normal_inplace, make_redrawn, drawn_normal, .flags = IN_PLACE, .weight = 4),
    ROW(dropout, make_dropout, dropped, .weight = 6),
    ROW(dropout2d, make_dropout, dropped, .weight = 5),
    ROW(dropout_evaluating, make_dropout, not_dropped, .flags = MAY_BE_SAME | MOVES, .weight = 3),
    ROW(dropout_backward, make_dropout, dropped_backward, .weight = 5),
    ROW(random_seed, make_state, changed_state, .weight = 3),
    ROW(random_state_use, make_state, changed_state, .weight = 3),
    ROW(random_state_set, make_state, changed_state, .weight = 3),
    { .name = NULL },
};
