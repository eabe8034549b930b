/* Random equations of weft_einsum(): letters that repeat, "..." of different lengths whose sizes broadcast, results with
 * any of the letters, with "..." and without it. */
#include "einsum_case.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "operand.h"

/* Labels: the letters a, b, c, then the dimensions of "...", aligned at the last one. */
enum { LETTERS = 3, MAX_REST = 2, LABELS = LETTERS + MAX_REST, MAX_FACTORS = 3, MAX_FACTOR_DIMS = 4 };

typedef struct term {
    int ndim, of[MAX_FACTOR_DIMS];
} term;

typedef struct equation {
    int num_factors;
    int64_t sizes[LABELS];
    term factors[MAX_FACTORS], output;
    operand operands[MAX_FACTORS];
    char text[80];
} equation;

static void add_label(term *t, int label)
{
    t->of[t->ndim++] = label;
}

static bool has(const term *t, int label)
{
    for (int d = 0; d < t->ndim; d++) {
        if (t->of[d] == label) {
            return true;
        }
    }
    return false;
}

/* `rest`: dimensions of "...", negative: there is none. */
static void write_term(equation *e, const term *t, int rest)
{
    char *at = e->text + strlen(e->text);
    for (int d = 0; d <= t->ndim; d++) {
        bool letter = d < t->ndim && t->of[d] < LETTERS;
        if (d == t->ndim - (rest < 0 ? 0 : rest) && rest >= 0) {
            at += sprintf(at, "...");
        }
        if (letter) {
            at += sprintf(at, "%c", 'a' + t->of[d]);
        }
    }
}

static void add_rest(term *t, int rest)
{
    for (int k = rest; k > 0; k--) {
        add_label(t, LABELS - k);
    }
}

/* Makes the operand of a term; sizes of "..." are sometimes 1. */
static void make_factor(equation *e, weft_mesh *mesh, weft_dtype type, int i)
{
    const term *t = &e->factors[i];
    int64_t shape[MAX_FACTOR_DIMS];
    for (int d = 0; d < t->ndim; d++) {
        shape[d] = t->of[d] >= LETTERS && below(3) == 0 ? 1 : e->sizes[t->of[d]];
    }
    e->operands[i] = make_operand(mesh, type, t->ndim, shape, WHOLE, 0);
}

/* The size of a label: 1 where "..." is 1 in all factors. */
static int64_t size_of(const equation *e, int label)
{
    int64_t size = 1;
    for (int i = 0; i < e->num_factors; i++) {
        for (int d = 0; d < e->factors[i].ndim; d++) {
            int64_t own = e->operands[i].shape[d];
            size = e->factors[i].of[d] == label && own != 1 ? own : size;
        }
    }
    return size;
}

static int64_t place_of(const term *t, const int64_t shape[], const int64_t index[])
{
    int64_t place = 0;
    for (int d = 0; d < t->ndim; d++) {
        place = place * shape[d] + (shape[d] == 1 ? 0 : index[t->of[d]]);
    }
    return place;
}

/* Adds the products over all indices of the labels. */
static void add_products(const equation *e, const int64_t sizes[], const int64_t shape[], double expected[])
{
    int64_t index[LABELS], count = shape_count(LABELS, sizes);
    for (int64_t i = 0; i < count; i++) {
        int64_t rest = i;
        for (int label = LABELS - 1; label >= 0; label--) {
            index[label] = rest % sizes[label];
            rest /= sizes[label];
        }
        double product = 1;
        for (int f = 0; f < e->num_factors; f++) {
            const operand *x = &e->operands[f];
            product *= x->dense[place_of(&e->factors[f], x->shape, index)];
        }
        expected[place_of(&e->output, shape, index)] += product;
    }
}

/* Terms, the result's too, and the text. */
static void write_equation(equation *e)
{
    bool rested = false, used[LETTERS] = { false };
    int longest = 0;
    for (int i = 0; i < e->num_factors; i++) {
        int rest = (int)below(MAX_REST + 2) - 1;
        for (int n = (int)below(3); n > 0; n--) {
            int letter = (int)below(LETTERS);
            add_label(&e->factors[i], letter);
            used[letter] = true;
        }
        add_rest(&e->factors[i], rest);
        strcat(e->text, i == 0 ? "" : ",");
        write_term(e, &e->factors[i], rest);
        rested |= rest >= 0;
        longest = rest > longest ? rest : longest;
    }
    strcat(e->text, "->");
    for (int n = 0; n < LETTERS; n++) {
        int letter = (int)below(LETTERS);
        if (used[letter] && !has(&e->output, letter) && e->output.ndim + longest < MAX_FACTOR_DIMS) {
            add_label(&e->output, letter);
        }
    }
    bool keeps = rested && below(2);
    add_rest(&e->output, keeps ? longest : 0);
    write_term(e, &e->output, keeps ? longest : -1);
}

void case_einsum(void)
{
    equation e = { .num_factors = 1 + (int)below(MAX_FACTORS) };
    weft_mesh *mesh = any_mesh();
    weft_dtype type = any_number();
    for (int label = 0; label < LABELS; label++) {
        e.sizes[label] = below(8) == 0 ? 0 : 1 + below(5);
    }
    write_equation(&e);
    weft_tensor *tensors[MAX_FACTORS];
    char what[600] = "";
    for (int i = 0; i < e.num_factors; i++) {
        make_factor(&e, mesh, type, i);
        tensors[i] = e.operands[i].tensor;
        snprintf(what + strlen(what), sizeof(what) - strlen(what), "%s ", describe_operand(&e.operands[i]));
    }
    snprintf(what + strlen(what), sizeof(what) - strlen(what), "by \"%s\"", e.text);
    int64_t sizes[LABELS], shape[MAX_FACTOR_DIMS];
    for (int label = 0; label < LABELS; label++) {
        bool there = false;
        for (int i = 0; i < e.num_factors; i++) {
            there |= has(&e.factors[i], label);
        }
        sizes[label] = !there ? 1 : label < LETTERS ? e.sizes[label] : size_of(&e, label);
    }
    for (int d = 0; d < e.output.ndim; d++) {
        shape[d] = sizes[e.output.of[d]];
    }
    double *expected = calloc((size_t)shape_count(e.output.ndim, shape) + 1, sizeof(double));
    add_products(&e, sizes, shape, expected);
    check(weft_einsum(e.text, e.num_factors, tensors), type, e.output.ndim, shape, expected, 64, 1e5, what);
    free(expected);
    for (int i = 0; i < e.num_factors; i++) {
        release(&e.operands[i]);
    }
}
