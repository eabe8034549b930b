/* Relations between sizes: as text, judged, and proved from each other. */
#include "graph/run/shapes.h"

#include <stdio.h>
#include <string.h>

/* ---- reading ----------------------------------------------------------------------------------------------- */

static const struct {
    const char *word, *opposite;
    weft_shape_kind kind;
    int64_t sign, added; /* `left < right` is right - left - 1 >= 0 */
} comparisons[] = {
    { "==", "!=", WEFT_SHAPE_EQUAL, 1, 0 },    { "!=", "==", WEFT_SHAPE_UNEQUAL, 1, 0 }, { ">=", "<", WEFT_SHAPE_AT_LEAST, 1, 0 },
    { "<=", ">", WEFT_SHAPE_AT_LEAST, -1, 0 }, { ">", "<=", WEFT_SHAPE_AT_LEAST, 1, -1 }, { "<", ">=", WEFT_SHAPE_AT_LEAST, -1, -1 },
};

/* The left side, and what it is divided by. */
static void read_left(weft_size_reader *r, weft_shape_relation *relation, bool *is_divided)
{
    const char *start = r->at;
    relation->sum = weft_size_read(r);
    *is_divided = r->wrong == NULL && weft_size_take(r, "%");
    if (!*is_divided) {
        return;
    }
    weft_size_reader again = { .at = start };
    weft_size_read_product(&again);
    if (!weft_size_take(&again, "%")) {
        r->wrong = "a sum before % stands in parentheses";
        return;
    }
    relation->divisor = weft_size_read_power(r);
    if (r->wrong == NULL && relation->divisor.num_terms == 0 && relation->divisor.number < 1) {
        r->wrong = "the number after % is 0";
    }
}

static void read_comparison(weft_size_reader *r, weft_shape_relation *relation, bool is_divided)
{
    size_t i = 0;
    while (i < WEFT_ARRAY_SIZE(comparisons) && !weft_size_take(r, comparisons[i].word)) {
        i++;
    }
    if (i == WEFT_ARRAY_SIZE(comparisons) || (is_divided && i > 1)) {
        r->wrong = is_divided ? "== or != is missing after %" : "a comparison is missing: ==, !=, <=, >=, < or >";
        return;
    }
    relation->kind = !is_divided ? comparisons[i].kind : i == 0 ? WEFT_SHAPE_MODULO : WEFT_SHAPE_NOT_MODULO;
    weft_size_sum right = weft_size_read(r), zero = weft_size_number(0);
    bool fits = r->wrong != NULL || (weft_size_add(&relation->sum, &right, -1, &relation->sum) &&
                                     (comparisons[i].sign > 0 || weft_size_add(&zero, &relation->sum, -1, &relation->sum)) &&
                                     weft_add_sized(relation->sum.number, comparisons[i].added, &relation->sum.number));
    r->wrong = fits ? r->wrong : "a sum has too many terms, or is too large";
}

/* One form of each relation: a positive first factor. */
static bool normalize(weft_shape_relation *relation)
{
    const weft_size_sum zero = weft_size_number(0);
    bool turns = relation->kind != WEFT_SHAPE_AT_LEAST && relation->sum.num_terms > 0 && relation->sum.terms[0].factor < 0;
    return !turns || weft_size_add(&zero, &relation->sum, -1, &relation->sum);
}

bool weft_shape_read(const char *text, weft_shape_relation *relation, char *why, size_t size)
{
    weft_size_reader r = { .at = text };
    bool is_divided;
    *relation = (weft_shape_relation){ .divisor = weft_size_number(1), .text = text };
    read_left(&r, relation, &is_divided);
    if (r.wrong == NULL) {
        read_comparison(&r, relation, is_divided);
    }
    weft_size_take(&r, ""); /* blanks */
    if (r.wrong == NULL && *r.at != '\0') {
        r.wrong = "the end is missing";
    }
    if (r.wrong == NULL && !normalize(relation)) {
        r.wrong = "a number is too large";
    }
    if (r.wrong != NULL) {
        snprintf(why, size, "%s at \"%s\"", r.wrong, r.at);
    }
    return r.wrong == NULL;
}

bool weft_shape_named(const weft_shape_relation *relation, int at, int *input, int *dim)
{
    const weft_size_sum *const sums[] = { &relation->sum, &relation->divisor };
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < sums[s]->num_terms; i++) {
            const weft_size_term *term = &sums[s]->terms[i];
            if (at < term->num_sizes) {
                *input = term->sizes[at].input;
                *dim = term->sizes[at].dim;
                return true;
            }
            at -= term->num_sizes;
        }
    }
    return false;
}

void weft_shape_negate(const char *text, char *negated, size_t size)
{
    size_t at = strcspn(text, "=!<>"), i = 0;
    while (i < WEFT_ARRAY_SIZE(comparisons) && strncmp(text + at, comparisons[i].word, strlen(comparisons[i].word)) != 0) {
        i++;
    }
    bool found = i < WEFT_ARRAY_SIZE(comparisons);
    snprintf(negated, size, "%.*s%s%s", (int)at, text, found ? comparisons[i].opposite : "",
             text + at + (found ? strlen(comparisons[i].word) : 0));
}

/* ---- judging ----------------------------------------------------------------------------------------------- */

static bool find_values(const weft_shape_relation *relation, const int64_t sizes[], const int first[], int64_t *sum, int64_t *divisor)
{
    return weft_size_value(&relation->sum, sizes, first, sum) && weft_size_value(&relation->divisor, sizes, first, divisor) &&
           *divisor >= 1;
}

bool weft_shape_is_defined(const weft_shape_relation *relation, const int64_t sizes[], const int first[])
{
    int64_t sum, divisor;
    return find_values(relation, sizes, first, &sum, &divisor);
}

bool weft_shape_holds(const weft_shape_relation *relation, const int64_t sizes[], const int first[])
{
    int64_t sum, divisor;
    if (!find_values(relation, sizes, first, &sum, &divisor)) {
        return false;
    }
    switch (relation->kind) {
    case WEFT_SHAPE_EQUAL:
        return sum == 0;
    case WEFT_SHAPE_UNEQUAL:
        return sum != 0;
    case WEFT_SHAPE_AT_LEAST:
        return sum >= 0;
    case WEFT_SHAPE_MODULO:
        return sum % divisor == 0;
    default:
        return sum % divisor != 0;
    }
}

/* sum + one's number == 0, so that sum + other's number is this. Numbers that large are left alone. */
static bool difference(const weft_shape_relation *one, const weft_shape_relation *other, int64_t sign, int64_t *rest)
{
    return one->sum.number > INT64_MIN && weft_add_sized(other->sum.number, -sign * one->sum.number, rest);
}

/* The divisor, if it is a number; else 0. */
static int64_t fixed_divisor(const weft_shape_relation *relation)
{
    return relation->divisor.num_terms == 0 ? relation->divisor.number : 0;
}

static int64_t sign_of_same(const weft_shape_relation *one, const weft_shape_relation *other)
{
    return weft_size_same_terms(&one->sum, &other->sum, 1) ? 1 : weft_size_same_terms(&one->sum, &other->sum, -1) ? -1 : 0;
}

static bool equality_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest, sign = sign_of_same(one, other), divisor = fixed_divisor(other);
    if (sign == 0 || !difference(one, other, sign, &rest)) {
        return false;
    }
    switch (other->kind) {
    case WEFT_SHAPE_EQUAL:
        return rest == 0;
    case WEFT_SHAPE_UNEQUAL:
        return rest != 0;
    case WEFT_SHAPE_AT_LEAST:
        return rest >= 0;
    case WEFT_SHAPE_MODULO:
        return divisor > 0 && rest % divisor == 0;
    default:
        return divisor > 0 && rest % divisor != 0;
    }
}

/* sum >= -number of one */
static bool bound_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest, number = other->sum.number;
    if (other->kind == WEFT_SHAPE_AT_LEAST) {
        return weft_size_same_terms(&one->sum, &other->sum, 1) && number >= one->sum.number;
    }
    int64_t sign = sign_of_same(one, other);
    if (other->kind != WEFT_SHAPE_UNEQUAL || sign == 0 || number == INT64_MIN || one->sum.number == INT64_MIN) {
        return false;
    }
    return weft_add_sized(sign * number, -one->sum.number, &rest) && rest > 0;
}

static bool modulo_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest, by = fixed_divisor(one), divisor = fixed_divisor(other);
    bool comparable = by > 0 && weft_size_same_terms(&one->sum, &other->sum, 1) && difference(one, other, 1, &rest);
    if (!comparable) {
        return false;
    }
    if (other->kind == WEFT_SHAPE_UNEQUAL) { /* 0 modulo the divisor is no number between */
        return rest % by != 0;
    }
    bool multiple = divisor > 0 && by % divisor == 0;
    return multiple && ((other->kind == WEFT_SHAPE_MODULO && rest % divisor == 0) ||
                        (other->kind == WEFT_SHAPE_NOT_MODULO && rest % divisor != 0));
}

static bool identical(const weft_shape_relation *one, const weft_shape_relation *other)
{
    return one->kind == other->kind && weft_size_equal(&one->divisor, &other->divisor) && weft_size_equal(&one->sum, &other->sum);
}

bool weft_shape_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    return identical(one, other) || (one->kind == WEFT_SHAPE_EQUAL && equality_implies(one, other)) ||
           (one->kind == WEFT_SHAPE_AT_LEAST && bound_implies(one, other)) ||
           (one->kind == WEFT_SHAPE_MODULO && modulo_implies(one, other));
}
