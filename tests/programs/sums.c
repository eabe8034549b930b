#include "sums.h"

weft_dtype wide_type(weft_dtype dtype)
{
    return dtype == WEFT_F64 || !is_floating(dtype) ? dtype : WEFT_F32;
}

double epsilon_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 0x1p-52 : 0x1p-23;
}

void set_number(scene *s, dense *out, int64_t i, double value, double slack)
{
    weft_dtype type = out->dtype;
    out->at[i].real = rounded(type, value);
    if (slack > 0) {
        double largest = largest_of(type);
        double tiny = type == WEFT_F64 ? 0x1p-1000 : type == WEFT_F16 ? 0x1p-24 : 0x1p-120;
        slack += tiny + (digits_of(type) < 24 ? ldexp(fabs(value), 1 - digits_of(type))
                                              : epsilon_of(type) * fabs(value));
        slack = fabs(value) + slack >= largest ? (double)INFINITY : slack;
    }
    dense_allow(s->arena, out, i, isfinite(value) ? slack : 0);
}

void set_sum(scene *s, dense *out, int64_t i, double value, int64_t addends, double mass, double unit)
{
    bool partial = any_partial(s);
    bool exact = mass <= unit * ldexp(1, digits_of(partial ? out->dtype : wide_type(out->dtype)));
    double slack = ((double)(addends < 1 ? 1 : addends) + 8) * epsilon_of(out->dtype) * mass;
    slack += partial ? 16 * ldexp(mass, 1 - digits_of(out->dtype)) : 0;
    set_number(s, out, i, value, exact ? 0 : slack);
    out->mass = fmax(out->mass, mass);
}

sums sums_new(scene *s, int64_t count)
{
    size_t size = (size_t)count * sizeof(double);
    return (sums){ arena_get(s->arena, size), arena_get(s->arena, size), arena_get(s->arena, size),
                   arena_get(s->arena, (size_t)count) };
}

void add_to_sum(sums *sum, dense *out, int64_t to, const dense *x, int64_t from)
{
    if (is_floating(x->dtype)) {
        sum->values[to] += x->at[from].real;
        sum->masses[to] += mass_at(x, from);
        sum->counts[to]++;
    } else {
        uint64_t total = (uint64_t)out->at[to].whole + (uint64_t)x->at[from].whole;
        out->at[to].whole = wrapped(out->dtype, (int64_t)total);
    }
}

void finish_sums(scene *s, const sums *sum, dense *out, double unit)
{
    for (int64_t i = 0; i < out->count && is_floating(out->dtype); i++) {
        set_sum(s, out, i, sum->values[i], sum->counts[i], sum->masses[i], unit);
        dense_allow(s->arena, out, i, sum->unsure[i] ? (double)INFINITY : 0);
    }
    out->unit = unit;
}

double mass_at(const dense *x, int64_t i)
{
    return x->partial ? x->mass : fabs(number_of(x->dtype, x->at[i]));
}

double largest_of(weft_dtype dtype)
{
    return dtype == WEFT_F64 ? 0x1p1020 : dtype == WEFT_F16 ? 65000 : 0x1.f8p127;
}

void set_product_of(scene *s, dense *out, int64_t i, const dense *x, double value, double most, double least,
                    bool whole, int64_t factors, double epsilon)
{
    epsilon = x->factors ? ldexp(1, 1 - digits_of(x->dtype)) : epsilon;
    bool exact = whole && most * epsilon <= 2;
    bool wild = x->factors ? most > largest_of(x->dtype) / 4 : most > 1e30;
    wild |= least < (x->factors && x->dtype == WEFT_F16 ? 1e-3 : 1e-30);
    double slack = ((double)factors + 12) * epsilon * fabs(value);
    set_number(s, out, i, value, exact ? 0 : slack);
    dense_allow(s->arena, out, i, wild && !exact ? (double)INFINITY : 0);
}

void distrust_vague(scene *s, dense *out)
{
    for (int k = 0; k < s->step->num_inputs; k++) {
        for (int64_t i = 0; s->in[k] != NULL && dense_is_vague(s->in[k]) && i < out->count; i++) {
            dense_allow(s->arena, out, i, (double)INFINITY);
        }
    }
}

bool any_partial(const scene *s)
{
    bool partial = false;
    for (int k = 0; k < s->step->num_inputs; k++) {
        partial |= s->in[k] != NULL && s->in[k]->partial;
    }
    return partial;
}

void distrust_infinite(scene *s, dense *out)
{
    bool finite = true;
    for (int k = 0; k < s->step->num_inputs; k++) {
        finite &= s->in[k] == NULL || dense_is_finite(s->in[k]);
    }
    for (int64_t i = 0; i < out->count && !finite && any_partial(s); i++) {
        dense_allow(s->arena, out, i, (double)INFINITY);
    }
}

void set_linear(scene *s, dense *out, int64_t i, double value, double roundings, double magnitude)
{
    double slack = roundings * epsilon_of(out->dtype) * magnitude;
    slack += any_partial(s) ? 16 * ldexp(magnitude, 1 - digits_of(out->dtype)) : 0;
    set_number(s, out, i, value, slack);
    out->mass = fmax(out->mass, magnitude);
}
