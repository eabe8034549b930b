/* Sums of products of sizes: what relations compare, and what sizes of a graph's values are derived as. Pure.
 *
 * Dimension D of inputs[K] is written iK.D. Values are passed as an array, with a table of the first size of each input. */
#ifndef WEFT_SRC_GRAPH_RUN_SIZE_SUMS_H
#define WEFT_SRC_GRAPH_RUN_SIZE_SUMS_H

#include "base/base.h"
#include "base/text.h"

enum { WEFT_SIZE_TERMS = 8, WEFT_SIZE_FACTORS = 4 };

/* A number times sizes. */
typedef struct weft_size_term {
    int64_t factor;
    int num_sizes;
    struct {
        int input, dim;
    } sizes[WEFT_SIZE_FACTORS]; /* sorted */
} weft_size_term;

typedef struct weft_size_sum {
    int num_terms;
    weft_size_term terms[WEFT_SIZE_TERMS]; /* of different sizes, sorted; no factor is 0 */
    int64_t number;
} weft_size_sum;

static inline weft_size_sum weft_size_number(int64_t number)
{
    return (weft_size_sum){ .number = number };
}
weft_size_sum weft_size_of(int input, int dim);
/* Arithmetic. False: a number or the sum becomes too large. */
bool weft_size_add(const weft_size_sum *a, const weft_size_sum *b, int64_t sign, weft_size_sum *out);
bool weft_size_multiply(const weft_size_sum *a, const weft_size_sum *b, weft_size_sum *out);
/* a / b, where b is one term or a number that is a factor of each term of a. False: it is not. */
bool weft_size_divide(const weft_size_sum *a, const weft_size_sum *b, weft_size_sum *out);
bool weft_size_equal(const weft_size_sum *a, const weft_size_sum *b);
/* Whether both have the same terms, those of the second times `sign`. */
bool weft_size_same_terms(const weft_size_sum *a, const weft_size_sum *b, int64_t sign);
/* False: beyond 64 bits. */
bool weft_size_value(const weft_size_sum *sum, const int64_t sizes[], const int first[], int64_t *value);
/* "2*s0*s1 + 3"; name() writes that of a size, and the largest products come first. */
typedef void weft_size_name(const void *context, int input, int dim, weft_text *text);
void weft_size_print(const weft_size_sum *sum, weft_size_name *name, const void *context, weft_text *text);

/* Numbers of 64 bits. False: the result does not fit. The product INT64_MIN counts as too large. */
bool weft_add_sized(int64_t a, int64_t b, int64_t *out);
bool weft_multiply_sized(int64_t a, int64_t b, int64_t *out);

/* ---- text ------------------------------------------------------------------------------------------------------------ */

/* A text that is read, or evaluated: both know the same numbers, sizes and parentheses. */
typedef struct weft_size_reader {
    const char *at;
    const char *wrong; /* the first error; NULL: none */
} weft_size_reader;

/* Takes a word after blanks. */
bool weft_size_take(weft_size_reader *r, const char *word);
/* Sums of products of numbers, sizes, powers by a number ("i0.0**2") and sums in parentheses. */
weft_size_sum weft_size_read(weft_size_reader *r);
/* One product of it; one number, size, power or sum in parentheses. */
weft_size_sum weft_size_read_product(weft_size_reader *r);
weft_size_sum weft_size_read_power(weft_size_reader *r);
/* Evaluates an expression with +, -, *, /, %, ** and parentheses on these sizes; / rounds down. False with the reason: another
 * text, a division by 0 or of negative numbers, a number beyond 64 bits, a size that no input has (counts[k]: dimensions of input k). */
bool weft_size_evaluate(const char *text, int num_inputs, const int counts[], const int64_t sizes[], const int first[],
                        int64_t *value, char *why, size_t size);

#endif
