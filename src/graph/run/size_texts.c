/* Sums of products of sizes as text: read as such, and expressions that are evaluated. */
#include "graph/run/size_sums.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ------------------------------------------------------------------------------------------------- */

static void skip_spaces(weft_size_reader *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
}

bool weft_size_take(weft_size_reader *r, const char *word)
{
    skip_spaces(r);
    bool found = strncmp(r->at, word, strlen(word)) == 0;
    r->at += found ? strlen(word) : 0;
    return found;
}

/* The first error is the one that counts. */
static void fail(weft_size_reader *r, const char *wrong)
{
    r->wrong = r->wrong == NULL ? wrong : r->wrong;
}

static int64_t read_number(weft_size_reader *r)
{
    skip_spaces(r);
    if (!isdigit((unsigned char)*r->at)) {
        fail(r, "a number is missing");
        return 0;
    }
    char *end;
    errno = 0;
    long long number = strtoll(r->at, &end, 10);
    if (errno != 0) {
        fail(r, "a number is too large");
    }
    r->at = end;
    return number;
}

/* iINPUT.DIM, after the i. */
static void read_size(weft_size_reader *r, int *input, int *dim)
{
    int64_t i = read_number(r);
    if (r->wrong == NULL && !weft_size_take(r, ".")) {
        fail(r, "a size is written iINPUT.DIM");
    }
    int64_t d = r->wrong == NULL ? read_number(r) : 0;
    if (i > INT_MAX || d > INT_MAX) {
        fail(r, "a size has too large a number");
    }
    *input = r->wrong == NULL ? (int)i : 0;
    *dim = r->wrong == NULL ? (int)d : 0;
}

enum { MOST_NESTED = 32 };

/* Parentheses, which may not be nested beyond measure. */
static bool open(weft_size_reader *r, int depth)
{
    bool opens = weft_size_take(r, "(");
    if (opens && depth == MOST_NESTED) {
        fail(r, "too many parentheses");
    }
    return opens && r->wrong == NULL;
}

static void close(weft_size_reader *r)
{
    if (r->wrong == NULL && !weft_size_take(r, ")")) {
        fail(r, "a closing parenthesis is missing");
    }
}

/* ---- sums -------------------------------------------------------------------------------------------------- */

static weft_size_sum read_sum(weft_size_reader *r, int depth);

static weft_size_sum read_atom(weft_size_reader *r, int depth)
{
    if (open(r, depth)) {
        weft_size_sum inside = read_sum(r, depth + 1);
        close(r);
        return inside;
    }
    if (weft_size_take(r, "i")) {
        int input, dim;
        read_size(r, &input, &dim);
        return weft_size_of(input, dim);
    }
    return weft_size_number(r->wrong == NULL ? read_number(r) : 0);
}

static weft_size_sum read_power(weft_size_reader *r, int depth)
{
    weft_size_sum base = read_atom(r, depth), power = base;
    if (r->wrong != NULL || !weft_size_take(r, "**")) {
        return base;
    }
    int64_t exponent = read_number(r);
    power = exponent == 0 ? weft_size_number(1) : base;
    bool fits = exponent <= 62;
    for (int64_t i = 1; i < exponent && fits; i++) {
        fits = weft_size_multiply(&power, &base, &power);
    }
    if (!fits) {
        fail(r, "a product has too many sizes or terms, or is too large");
    }
    return power;
}

static weft_size_sum read_product(weft_size_reader *r, int depth)
{
    weft_size_sum product = read_power(r, depth);
    while (r->wrong == NULL && weft_size_take(r, "*")) {
        weft_size_sum next = read_power(r, depth);
        if (r->wrong == NULL && !weft_size_multiply(&product, &next, &product)) {
            fail(r, "a product has too many sizes or terms, or is too large");
        }
    }
    return product;
}

static weft_size_sum read_sum(weft_size_reader *r, int depth)
{
    weft_size_sum sum = weft_size_number(0);
    int64_t sign = weft_size_take(r, "-") ? -1 : 1;
    while (r->wrong == NULL && sign != 0) {
        weft_size_sum product = read_product(r, depth);
        if (r->wrong == NULL && !weft_size_add(&sum, &product, sign, &sum)) {
            fail(r, "a sum has too many terms, or is too large");
        }
        sign = weft_size_take(r, "+") ? 1 : weft_size_take(r, "-") ? -1 : 0;
    }
    return sum;
}

weft_size_sum weft_size_read(weft_size_reader *r)
{
    return read_sum(r, 0);
}

weft_size_sum weft_size_read_product(weft_size_reader *r)
{
    return read_product(r, 0);
}

weft_size_sum weft_size_read_power(weft_size_reader *r)
{
    return read_power(r, 0);
}

/* ---- expressions ------------------------------------------------------------------------------------------- */

typedef struct evaluation {
    weft_size_reader r;
    int num_inputs;
    const int *counts, *first;
    const int64_t *sizes;
} evaluation;

static int64_t evaluate_sum(evaluation *e, int depth);

static int64_t evaluate_atom(evaluation *e, int depth)
{
    if (open(&e->r, depth)) {
        int64_t inside = evaluate_sum(e, depth + 1);
        close(&e->r);
        return inside;
    }
    if (e->r.wrong != NULL || !weft_size_take(&e->r, "i")) {
        return e->r.wrong == NULL ? read_number(&e->r) : 0;
    }
    int input, dim;
    read_size(&e->r, &input, &dim);
    if (e->r.wrong == NULL && (input >= e->num_inputs || dim >= e->counts[input])) {
        fail(&e->r, "there is no such size");
    }
    return e->r.wrong == NULL ? e->sizes[e->first[input] + dim] : 0;
}

static int64_t multiply(evaluation *e, int64_t a, int64_t b)
{
    int64_t product;
    if (!weft_multiply_sized(a, b, &product)) {
        fail(&e->r, "a number is too large");
    }
    return product;
}

static int64_t evaluate_power(evaluation *e, int depth)
{
    int64_t base = evaluate_atom(e, depth), power = 1;
    if (e->r.wrong != NULL || !weft_size_take(&e->r, "**")) {
        return base;
    }
    int64_t exponent = read_number(&e->r);
    if (base >= -1 && base <= 1) { /* any exponent */
        return exponent == 0 || base == 1 ? 1 : base == 0 ? 0 : exponent % 2 == 0 ? 1 : -1;
    }
    for (int64_t i = 0; i < exponent && e->r.wrong == NULL; i++) {
        power = multiply(e, power, base);
    }
    return power;
}

/* Sizes are not negative, so there is one way of rounding; what a difference below 0 would mean is left open. */
static int64_t divide(evaluation *e, int64_t a, int64_t b, bool rest)
{
    if (e->r.wrong == NULL && (b <= 0 || a < 0)) {
        fail(&e->r, b == 0 ? "a division by 0" : "a division of a negative number, or by one");
    }
    return e->r.wrong != NULL || b == 0 ? 0 : rest ? a % b : a / b;
}

static int64_t evaluate_product(evaluation *e, int depth)
{
    int64_t product = evaluate_power(e, depth);
    for (bool more = true; e->r.wrong == NULL && more;) {
        char by = weft_size_take(&e->r, "*") ? '*' : weft_size_take(&e->r, "/") ? '/' : weft_size_take(&e->r, "%") ? '%' : '\0';
        more = by != '\0';
        int64_t next = more ? evaluate_power(e, depth) : 1;
        if (e->r.wrong == NULL && more) {
            product = by == '*' ? multiply(e, product, next) : divide(e, product, next, by == '%');
        }
    }
    return product;
}

static int64_t evaluate_sum(evaluation *e, int depth)
{
    int64_t sum = 0, sign = weft_size_take(&e->r, "-") ? -1 : 1;
    while (e->r.wrong == NULL && sign != 0) {
        int64_t product = multiply(e, evaluate_product(e, depth), sign);
        if (e->r.wrong == NULL && !weft_add_sized(sum, product, &sum)) {
            fail(&e->r, "a number is too large");
        }
        sign = weft_size_take(&e->r, "+") ? 1 : weft_size_take(&e->r, "-") ? -1 : 0;
    }
    return sum;
}

bool weft_size_evaluate(const char *text, int num_inputs, const int counts[], const int64_t sizes[], const int first[],
                        int64_t *value, char *why, size_t size)
{
    evaluation e = { .r = { .at = text }, .num_inputs = num_inputs, .counts = counts, .first = first, .sizes = sizes };
    *value = evaluate_sum(&e, 0);
    skip_spaces(&e.r);
    if (*e.r.at != '\0') {
        fail(&e.r, "the end is missing");
    }
    if (e.r.wrong != NULL) {
        snprintf(why, size, "%s at \"%s\"", e.r.wrong, e.r.at);
    }
    return e.r.wrong == NULL;
}
