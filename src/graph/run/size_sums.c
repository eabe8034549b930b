/* Sums of products of sizes: arithmetic, and as text. */
#include "graph/run/size_sums.h"

#include <string.h>

/* ---- numbers ----------------------------------------------------------------------------------------------- */

bool weft_add_sized(int64_t a, int64_t b, int64_t *out)
{
    bool fits = b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;
    *out = fits ? a + b : 0;
    return fits;
}

bool weft_multiply_sized(int64_t a, int64_t b, int64_t *out)
{
    int64_t magnitude;
    bool fits = a > INT64_MIN && b > INT64_MIN && weft_mul_checked(a < 0 ? -a : a, b < 0 ? -b : b, &magnitude);
    *out = !fits ? 0 : (a < 0) != (b < 0) ? -magnitude : magnitude;
    return fits;
}

/* ---- terms ------------------------------------------------------------------------------------------------- */

/* Below, equal to, or above 0: the order of two terms' sizes. */
static int compare_terms(const weft_size_term *a, const weft_size_term *b)
{
    int order = a->num_sizes - b->num_sizes;
    for (int i = 0; i < a->num_sizes && order == 0; i++) {
        order = a->sizes[i].input != b->sizes[i].input ? a->sizes[i].input - b->sizes[i].input
                                                       : a->sizes[i].dim - b->sizes[i].dim;
    }
    return order;
}

static bool multiply_terms(const weft_size_term *a, const weft_size_term *b, weft_size_term *out)
{
    *out = (weft_size_term){ .factor = 0 };
    if (a->num_sizes + b->num_sizes > WEFT_SIZE_FACTORS || !weft_multiply_sized(a->factor, b->factor, &out->factor)) {
        return false;
    }
    int i = 0, k = 0;
    while (i < a->num_sizes || k < b->num_sizes) {
        bool first = k == b->num_sizes ||
                     (i < a->num_sizes && (a->sizes[i].input < b->sizes[k].input ||
                                           (a->sizes[i].input == b->sizes[k].input && a->sizes[i].dim <= b->sizes[k].dim)));
        out->sizes[out->num_sizes++] = first ? a->sizes[i++] : b->sizes[k++];
    }
    return true;
}

/* False: `b` has a size or a factor that `a` has not. */
static bool divide_terms(const weft_size_term *a, const weft_size_term *b, weft_size_term *out)
{
    *out = (weft_size_term){ .factor = a->factor / b->factor };
    bool exact = a->factor % b->factor == 0;
    int k = 0;
    for (int i = 0; i < a->num_sizes; i++) {
        bool taken = k < b->num_sizes && a->sizes[i].input == b->sizes[k].input && a->sizes[i].dim == b->sizes[k].dim;
        k += taken;
        if (!taken) {
            out->sizes[out->num_sizes++] = a->sizes[i];
        }
    }
    return exact && k == b->num_sizes;
}

static bool add_term(weft_size_sum *sum, const weft_size_term *term)
{
    int place = 0;
    if (term->num_sizes == 0 || term->factor == 0) {
        return weft_add_sized(sum->number, term->factor, &sum->number);
    }
    while (place < sum->num_terms && compare_terms(&sum->terms[place], term) < 0) {
        place++;
    }
    weft_size_term *at = &sum->terms[place];
    if (place < sum->num_terms && compare_terms(at, term) == 0) {
        bool fits = weft_add_sized(at->factor, term->factor, &at->factor);
        if (fits && at->factor == 0) {
            sum->num_terms--;
            memmove(at, at + 1, (size_t)(sum->num_terms - place) * sizeof(*at));
        }
        return fits;
    }
    if (sum->num_terms == WEFT_SIZE_TERMS) {
        return false;
    }
    memmove(at + 1, at, (size_t)(sum->num_terms - place) * sizeof(*at));
    *at = *term;
    sum->num_terms++;
    return true;
}

/* ---- sums -------------------------------------------------------------------------------------------------- */

weft_size_sum weft_size_of(int input, int dim)
{
    weft_size_sum sum = { .num_terms = 1, .terms = { { .factor = 1, .num_sizes = 1 } } };
    sum.terms[0].sizes[0].input = input;
    sum.terms[0].sizes[0].dim = dim;
    return sum;
}

bool weft_size_add(const weft_size_sum *a, const weft_size_sum *b, int64_t sign, weft_size_sum *out)
{
    weft_size_sum sum = *a;
    int64_t number;
    bool fits = weft_multiply_sized(b->number, sign, &number) && weft_add_sized(sum.number, number, &sum.number);
    for (int i = 0; i < b->num_terms && fits; i++) {
        weft_size_term term = b->terms[i];
        fits = weft_multiply_sized(term.factor, sign, &term.factor) && add_term(&sum, &term);
    }
    *out = sum;
    return fits;
}

bool weft_size_multiply(const weft_size_sum *a, const weft_size_sum *b, weft_size_sum *out)
{
    weft_size_sum sum = { .num_terms = 0 };
    bool fits = true;
    for (int i = 0; i <= a->num_terms && fits; i++) {
        weft_size_term one = i < a->num_terms ? a->terms[i] : (weft_size_term){ .factor = a->number };
        for (int k = 0; k <= b->num_terms && fits; k++) {
            weft_size_term other = k < b->num_terms ? b->terms[k] : (weft_size_term){ .factor = b->number }, product;
            fits = one.factor == 0 || other.factor == 0 || (multiply_terms(&one, &other, &product) && add_term(&sum, &product));
        }
    }
    *out = sum;
    return fits;
}

bool weft_size_divide(const weft_size_sum *a, const weft_size_sum *b, weft_size_sum *out)
{
    weft_size_sum sum = { .num_terms = 0 };
    bool is_term = b->num_terms == 1 && b->number == 0, is_number = b->num_terms == 0 && b->number != 0;
    weft_size_term by = is_term ? b->terms[0] : (weft_size_term){ .factor = b->number };
    bool exact = is_term || is_number;
    for (int i = 0; i <= a->num_terms && exact; i++) {
        weft_size_term term = i < a->num_terms ? a->terms[i] : (weft_size_term){ .factor = a->number }, quotient;
        exact = term.factor == 0 || (divide_terms(&term, &by, &quotient) && add_term(&sum, &quotient));
    }
    *out = sum;
    return exact;
}

bool weft_size_same_terms(const weft_size_sum *a, const weft_size_sum *b, int64_t sign)
{
    bool same = a->num_terms == b->num_terms;
    for (int i = 0; i < a->num_terms && same; i++) {
        same = compare_terms(&a->terms[i], &b->terms[i]) == 0 && a->terms[i].factor == sign * b->terms[i].factor;
    }
    return same;
}

bool weft_size_equal(const weft_size_sum *a, const weft_size_sum *b)
{
    return a->number == b->number && weft_size_same_terms(a, b, 1);
}

bool weft_size_value(const weft_size_sum *sum, const int64_t sizes[], const int first[], int64_t *value)
{
    bool fits = true;
    *value = sum->number;
    for (int i = 0; i < sum->num_terms && fits; i++) {
        const weft_size_term *term = &sum->terms[i];
        int64_t product = term->factor;
        for (int k = 0; k < term->num_sizes && fits; k++) {
            fits = weft_multiply_sized(product, sizes[first[term->sizes[k].input] + term->sizes[k].dim], &product);
        }
        fits = fits && weft_add_sized(*value, product, value);
    }
    return fits;
}

/* "s0**2*s1" */
static void print_product(const weft_size_term *term, weft_size_name *name, const void *context, weft_text *text)
{
    for (int i = 0; i < term->num_sizes;) {
        int power = 1;
        while (i + power < term->num_sizes && term->sizes[i + power].input == term->sizes[i].input &&
               term->sizes[i + power].dim == term->sizes[i].dim) {
            power++;
        }
        weft_text_add(text, "%s", i > 0 ? "*" : "");
        name(context, term->sizes[i].input, term->sizes[i].dim, text);
        if (power > 1) {
            weft_text_add(text, "**%d", power);
        }
        i += power;
    }
}

void weft_size_print(const weft_size_sum *sum, weft_size_name *name, const void *context, weft_text *text)
{
    for (int i = sum->num_terms - 1; i >= 0; i--) {
        const weft_size_term *term = &sum->terms[i];
        bool first = i == sum->num_terms - 1;
        int64_t factor = term->factor < 0 ? -term->factor : term->factor;
        weft_text_add(text, "%s", first ? (term->factor < 0 ? "-" : "") : term->factor < 0 ? " - " : " + ");
        if (factor != 1) {
            weft_text_add(text, "%lld*", (long long)factor);
        }
        print_product(term, name, context, text);
    }
    if (sum->num_terms == 0) {
        weft_text_add(text, "%lld", (long long)sum->number);
    } else if (sum->number != 0) {
        weft_text_add(text, sum->number < 0 ? " - %lld" : " + %lld", (long long)(sum->number < 0 ? -sum->number : sum->number));
    }
}
