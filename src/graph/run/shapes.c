/* Sizes of a graph's inputs. */
#include "graph/run/shapes.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- arithmetic -------------------------------------------------------------------------------------------- */

/* False: the result does not fit. */
static bool add(int64_t a, int64_t b, int64_t *out)
{
    bool fits = b >= 0 ? a <= INT64_MAX - b : a >= INT64_MIN - b;
    *out = fits ? a + b : 0;
    return fits;
}

/* The result INT64_MIN counts as too large. */
static bool multiply(int64_t a, int64_t b, int64_t *out)
{
    int64_t magnitude;
    bool fits = a > INT64_MIN && b > INT64_MIN && weft_mul_checked(a < 0 ? -a : a, b < 0 ? -b : b, &magnitude);
    *out = !fits ? 0 : (a < 0) != (b < 0) ? -magnitude : magnitude;
    return fits;
}

/* ---- reading ----------------------------------------------------------------------------------------------- */

typedef struct reading {
    const char *at;
    weft_shape_relation *relation;
    const char *wrong; /* NULL: nothing */
} reading;

static void skip_spaces(reading *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
}

static bool take(reading *r, const char *word)
{
    skip_spaces(r);
    bool found = strncmp(r->at, word, strlen(word)) == 0;
    r->at += found ? strlen(word) : 0;
    return found;
}

static int64_t read_number(reading *r)
{
    skip_spaces(r);
    if (!isdigit((unsigned char)*r->at)) {
        r->wrong = "a number is missing";
        return 0;
    }
    char *end;
    errno = 0;
    long long number = strtoll(r->at, &end, 10);
    r->wrong = errno != 0 ? "a number is too large" : r->wrong;
    r->at = end;
    return number;
}

static void add_size(reading *r, weft_shape_term *term)
{
    int64_t input = read_number(r);
    if (r->wrong == NULL && !take(r, ".")) {
        r->wrong = "a size is written iINPUT.DIM";
    }
    int64_t dim = r->wrong == NULL ? read_number(r) : 0;
    if (r->wrong == NULL && (term->num_sizes == WEFT_SHAPE_FACTORS || input > INT_MAX || dim > INT_MAX)) {
        r->wrong = "a product has too many sizes, or a size too large a number";
    }
    if (r->wrong != NULL) {
        return;
    }
    int place = term->num_sizes++;
    while (place > 0 && (term->sizes[place - 1].input > input ||
                         (term->sizes[place - 1].input == input && term->sizes[place - 1].dim > dim))) {
        term->sizes[place] = term->sizes[place - 1];
        place--;
    }
    term->sizes[place].input = (int)input;
    term->sizes[place].dim = (int)dim;
}

/* 3*i0.0*i1.1 */
static weft_shape_term read_product(reading *r)
{
    weft_shape_term term = { .factor = 1 };
    do {
        if (take(r, "i")) {
            add_size(r, &term);
        } else if (!multiply(term.factor, read_number(r), &term.factor)) {
            r->wrong = "a number is too large";
        }
    } while (r->wrong == NULL && take(r, "*"));
    return term;
}

/* Below, equal to, or above 0: the order of two terms' sizes. */
static int compare_terms(const weft_shape_term *a, const weft_shape_term *b)
{
    int order = a->num_sizes - b->num_sizes;
    for (int i = 0; i < a->num_sizes && order == 0; i++) {
        order = a->sizes[i].input != b->sizes[i].input ? a->sizes[i].input - b->sizes[i].input
                                                       : a->sizes[i].dim - b->sizes[i].dim;
    }
    return order;
}

static void add_term(reading *r, weft_shape_term term, int64_t sign)
{
    weft_shape_relation *relation = r->relation;
    int place = 0;
    if (!multiply(term.factor, sign, &term.factor)) {
        r->wrong = "a number is too large";
        return;
    }
    if (term.num_sizes == 0) {
        r->wrong = add(relation->number, term.factor, &relation->number) ? NULL : "a number is too large";
        return;
    }
    while (place < relation->num_terms && compare_terms(&relation->terms[place], &term) < 0) {
        place++;
    }
    if (place < relation->num_terms && compare_terms(&relation->terms[place], &term) == 0) {
        int64_t *factor = &relation->terms[place].factor;
        r->wrong = add(*factor, term.factor, factor) ? NULL : "a number is too large";
        return;
    }
    if (relation->num_terms == WEFT_SHAPE_TERMS) {
        r->wrong = "too many terms";
        return;
    }
    memmove(relation->terms + place + 1, relation->terms + place, (size_t)(relation->num_terms - place) * sizeof(term));
    relation->terms[place] = term;
    relation->num_terms++;
}

static void read_sum(reading *r, int64_t sign)
{
    int64_t next = take(r, "-") ? -sign : sign;
    do {
        weft_shape_term term = read_product(r);
        if (r->wrong == NULL) {
            add_term(r, term, next);
        }
        next = take(r, "+") ? sign : take(r, "-") ? -sign : 0;
    } while (r->wrong == NULL && next != 0);
}

static void negate(weft_shape_relation *relation)
{
    for (int i = 0; i < relation->num_terms; i++) {
        relation->terms[i].factor = -relation->terms[i].factor;
    }
    relation->number = -relation->number;
}

/* One form of each relation: no terms of 0, a positive first factor. */
static void normalize(weft_shape_relation *relation)
{
    int kept = 0;
    for (int i = 0; i < relation->num_terms; i++) {
        if (relation->terms[i].factor != 0) {
            relation->terms[kept++] = relation->terms[i];
        }
    }
    relation->num_terms = kept;
    if (relation->kind != WEFT_SHAPE_AT_LEAST && kept > 0 && relation->terms[0].factor < 0) {
        negate(relation);
    }
}

/* Sums are differences to 0: `left < right` is right - left - 1 >= 0. */
static void read_comparison(reading *r)
{
    weft_shape_relation *relation = r->relation;
    static const struct {
        const char *word;
        weft_shape_kind kind;
        int64_t sign, added;
    } comparisons[] = { { "==", WEFT_SHAPE_EQUAL, 1, 0 },     { "!=", WEFT_SHAPE_UNEQUAL, 1, 0 }, { ">=", WEFT_SHAPE_AT_LEAST, 1, 0 },
                        { "<=", WEFT_SHAPE_AT_LEAST, -1, 0 }, { ">", WEFT_SHAPE_AT_LEAST, 1, -1 }, { "<", WEFT_SHAPE_AT_LEAST, -1, -1 } };
    bool has_divisor = take(r, "%");
    relation->divisor = has_divisor ? read_number(r) : 0;
    size_t i = 0;
    while (r->wrong == NULL && i < WEFT_ARRAY_SIZE(comparisons) && !take(r, comparisons[i].word)) {
        i++;
    }
    if (r->wrong == NULL && (i == WEFT_ARRAY_SIZE(comparisons) || (has_divisor && i > 1))) {
        r->wrong = has_divisor ? "== or != is missing after %" : "a comparison is missing: ==, !=, <=, >=, < or >";
    }
    if (r->wrong == NULL && has_divisor && relation->divisor < 1) {
        r->wrong = "the number after % is 0";
    }
    if (r->wrong != NULL) {
        return;
    }
    relation->kind = !has_divisor ? comparisons[i].kind : i == 0 ? WEFT_SHAPE_MODULO : WEFT_SHAPE_NOT_MODULO;
    if (comparisons[i].sign < 0) {
        negate(relation);
    }
    read_sum(r, -comparisons[i].sign);
    if (r->wrong == NULL && !add(relation->number, comparisons[i].added, &relation->number)) {
        r->wrong = "a number is too large";
    }
}

bool weft_shape_read(const char *text, weft_shape_relation *relation, char *why, size_t size)
{
    reading r = { .at = text, .relation = relation };
    *relation = (weft_shape_relation){ .text = text };
    read_sum(&r, 1);
    if (r.wrong == NULL) {
        read_comparison(&r);
    }
    skip_spaces(&r);
    if (r.wrong == NULL && *r.at != '\0') {
        r.wrong = "the end is missing";
    }
    if (r.wrong != NULL) {
        snprintf(why, size, "%s at \"%s\"", r.wrong, r.at);
        return false;
    }
    normalize(relation);
    return true;
}

/* ---- judging ----------------------------------------------------------------------------------------------- */

static bool find_sum(const weft_shape_relation *relation, const int64_t sizes[], const int first[], int64_t *sum)
{
    bool fits = true;
    *sum = relation->number;
    for (int i = 0; i < relation->num_terms && fits; i++) {
        const weft_shape_term *term = &relation->terms[i];
        int64_t product = term->factor;
        for (int k = 0; k < term->num_sizes && fits; k++) {
            fits = multiply(product, sizes[first[term->sizes[k].input] + term->sizes[k].dim], &product);
        }
        fits = fits && add(*sum, product, sum);
    }
    return fits;
}

bool weft_shape_holds(const weft_shape_relation *relation, const int64_t sizes[], const int first[])
{
    int64_t sum;
    if (!find_sum(relation, sizes, first, &sum)) {
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
        return sum % relation->divisor == 0;
    default:
        return sum % relation->divisor != 0;
    }
}

/* Whether both have the same terms, those of the second times `sign`. */
static bool same_terms(const weft_shape_relation *a, const weft_shape_relation *b, int64_t sign)
{
    bool same = a->num_terms == b->num_terms;
    for (int i = 0; i < a->num_terms && same; i++) {
        same = compare_terms(&a->terms[i], &b->terms[i]) == 0 && a->terms[i].factor == sign * b->terms[i].factor;
    }
    return same;
}

/* sum + one->number == 0, so that sum + other->number is this. Numbers that large are left alone. */
static bool difference(const weft_shape_relation *one, const weft_shape_relation *other, int64_t sign, int64_t *rest)
{
    return one->number > INT64_MIN && add(other->number, -sign * one->number, rest);
}

static bool equality_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest, sign = same_terms(one, other, 1) ? 1 : same_terms(one, other, -1) ? -1 : 0;
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
        return rest % other->divisor == 0;
    default:
        return rest % other->divisor != 0;
    }
}

/* sum >= -one->number */
static bool bound_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest;
    if (other->kind == WEFT_SHAPE_AT_LEAST) {
        return same_terms(one, other, 1) && other->number >= one->number;
    }
    int64_t sign = same_terms(one, other, 1) ? 1 : same_terms(one, other, -1) ? -1 : 0;
    if (other->kind != WEFT_SHAPE_UNEQUAL || sign == 0 || other->number == INT64_MIN) {
        return false;
    }
    return add(sign * other->number, -one->number, &rest) && rest > 0;
}

static bool modulo_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    int64_t rest;
    bool comparable = same_terms(one, other, 1) && difference(one, other, 1, &rest);
    if (!comparable) {
        return false;
    }
    if (other->kind == WEFT_SHAPE_UNEQUAL) { /* 0 modulo the divisor is no number between */
        return rest % one->divisor != 0;
    }
    bool multiple = other->divisor > 0 && one->divisor % other->divisor == 0;
    return multiple && ((other->kind == WEFT_SHAPE_MODULO && rest % other->divisor == 0) ||
                        (other->kind == WEFT_SHAPE_NOT_MODULO && rest % other->divisor != 0));
}

static bool identical(const weft_shape_relation *one, const weft_shape_relation *other)
{
    return one->kind == other->kind && one->divisor == other->divisor && one->number == other->number && same_terms(one, other, 1);
}

bool weft_shape_implies(const weft_shape_relation *one, const weft_shape_relation *other)
{
    return identical(one, other) || (one->kind == WEFT_SHAPE_EQUAL && equality_implies(one, other)) ||
           (one->kind == WEFT_SHAPE_AT_LEAST && bound_implies(one, other)) ||
           (one->kind == WEFT_SHAPE_MODULO && modulo_implies(one, other));
}

/* ---- what has held ------------------------------------------------------------------------------------------- */

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
        line->broken = line->broken || !multiply(line->a, x, &part) || part == INT64_MIN || !add(y, -part, &line->b);
        line->other = x;
        line->num_points = 2;
    } else if (line->num_points == 1) {
        line->broken = line->broken || y != line->y;
    } else if (!line->broken) {
        int64_t part;
        line->broken = !multiply(line->a, x, &part) || !add(part, line->b, &part) || part != y;
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
    int symbols = 0, numbers[WEFT_SHAPE_TRACKED];
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
