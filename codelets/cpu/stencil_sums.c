#include "codelets/cpu/stencil_sums.h"

#include "codelets/cpu/clones.h"

/* ---- which steps are a sum ------------------------------------------------------------------------------- */

/* Multiplies the value by a number. False: the steps round after both products, and one product would round once. */
static bool scale(weft_stencil_sum *value, double by)
{
    double *factor = value->num_terms == 1 ? &value->factors[0] : &value->factor;
    bool exact = by == 1 || by == -1 || *factor == 1 || *factor == -1;
    *factor *= by;
    return exact && value->other < 0;
}

/* Adds b to a. False: the result is no sum whose terms are added from the left to the right. */
static bool add(weft_stencil_sum *a, const weft_stencil_sum *b)
{
    const bool last = b->num_terms == 1; /* addition commutes */
    const weft_stencil_sum one = last ? *b : *a;
    *a = last ? *a : *b;
    if (one.num_terms != 1 || a->other >= 0 || a->num_terms == WEFT_STENCIL_TERMS) {
        return false;
    }
    if (a->factor == 1) {
        a->terms[a->num_terms] = one.terms[0];
        a->factors[a->num_terms++] = one.factors[0];
    } else {
        a->other = one.terms[0];
        a->other_factor = one.factors[0];
    }
    return true;
}

static bool apply(const weft_stencil_step *step, weft_stencil_sum *a, weft_stencil_sum *b)
{
    const double number = step->args.types[0] == WEFT_F32 ? (float)step->scalars[0] : step->scalars[0];
    switch (step->kernel) {
    case WEFT_KERNEL_scale:
        return scale(a, number);
    case WEFT_KERNEL_add:
        return add(a, b);
    case WEFT_KERNEL_sub:
        return scale(b, -1) && add(a, b);
    case WEFT_KERNEL_add_scaled:
        return scale(b, number) && add(a, b);
    default:
        return false;
    }
}

static bool has_one_type(const weft_stencil_step *step, weft_dtype type)
{
    bool has = step->args.converted == 0 && (type == WEFT_F64 || type == WEFT_F32);
    for (int i = 0; i <= step->num_inputs; i++) {
        has = has && step->args.types[i] == type;
    }
    return has;
}

/* A sum of one view. */
static weft_stencil_sum term(int view)
{
    return (weft_stencil_sum){ .num_terms = 1, .terms = { view }, .other = -1, .factors = { 1 }, .factor = 1 };
}

weft_stencil_sum weft_stencil_find_sum(const weft_stencil *stencil)
{
    weft_stencil_sum slots[WEFT_STENCIL_STEPS], operands[2] = { { 0 } };
    bool found = true;
    for (int i = 0; i < stencil->num_steps && found; i++) {
        const weft_stencil_step *step = &stencil->steps[i];
        found = step->num_inputs <= 2 && has_one_type(step, stencil->steps[0].args.types[0]);
        for (int k = 0; k < step->num_inputs && found; k++) {
            int number = step->operands[k];
            operands[k] = number < 0 ? slots[-1 - number] : term(number);
        }
        found = found && apply(step, &operands[0], &operands[1]);
        if (found && step->slot >= 0) {
            slots[step->slot] = operands[0];
        }
    }
    return found ? operands[0] : (weft_stencil_sum){ .num_terms = 0 };
}

/* ---- the loops ------------------------------------------------------------------------------------------- */

#define SUM(T, n)                                                                                                                        \
    WEFT_CLONES static void sum_of_##n##_##T(T *restrict out, const T *const terms[], const T factors[], T factor, const T *other,       \
                                             T other_factor, int64_t count)                                                              \
    {                                                                                                                                    \
        const T *own[n];                                                                                                                 \
        T by[n];                                                                                                                         \
        for (int k = 0; k < n; k++) {                                                                                                    \
            own[k] = terms[k];                                                                                                           \
            by[k] = factors[k];                                                                                                          \
        }                                                                                                                                \
        for (int64_t i = 0; i < count && other == NULL; i++) {                                                                           \
            T sum = by[0] * own[0][i];                                                                                                   \
            for (int k = 1; k < n; k++) {                                                                                                \
                sum += by[k] * own[k][i];                                                                                                \
            }                                                                                                                            \
            out[i] = factor * sum;                                                                                                       \
        }                                                                                                                                \
        for (int64_t i = 0; i < count && other != NULL; i++) {                                                                           \
            T sum = by[0] * own[0][i];                                                                                                   \
            for (int k = 1; k < n; k++) {                                                                                                \
                sum += by[k] * own[k][i];                                                                                                \
            }                                                                                                                            \
            out[i] = other_factor * other[i] + factor * sum;                                                                             \
        }                                                                                                                                \
    }
#define SUMS(T) SUM(T, 1) SUM(T, 2) SUM(T, 3) SUM(T, 4) SUM(T, 5) SUM(T, 6) SUM(T, 7) SUM(T, 8) SUM(T, 9)
SUMS(double)
SUMS(float)

#define ALL(T)                                                                                                                           \
    {                                                                                                                                    \
        sum_of_1_##T, sum_of_2_##T, sum_of_3_##T, sum_of_4_##T, sum_of_5_##T, sum_of_6_##T, sum_of_7_##T, sum_of_8_##T, sum_of_9_##T     \
    }

#define RUN(T)                                                                                                                           \
    static void run_##T(const weft_stencil_sum *sum, T *out, const char *const at[], int64_t count)                                      \
    {                                                                                                                                    \
        static void (*const all[])(T *restrict, const T *const[], const T[], T, const T *, T, int64_t) = ALL(T);                         \
        const T *terms[WEFT_STENCIL_TERMS];                                                                                              \
        T factors[WEFT_STENCIL_TERMS];                                                                                                   \
        for (int k = 0; k < sum->num_terms; k++) {                                                                                       \
            terms[k] = (const T *)(const void *)at[sum->terms[k]];                                                                       \
            factors[k] = (T)sum->factors[k];                                                                                             \
        }                                                                                                                                \
        all[sum->num_terms - 1](out, terms, factors, (T)sum->factor,                                                                     \
                                sum->other < 0 ? NULL : (const T *)(const void *)at[sum->other], (T)sum->other_factor, count);           \
    }
RUN(double)
RUN(float)

void weft_stencil_run_sum(const weft_stencil_sum *sum, weft_dtype type, void *out, const char *const at[], int64_t count)
{
    if (type == WEFT_F64) {
        run_double(sum, out, at, count);
    } else {
        run_float(sum, out, at, count);
    }
}
