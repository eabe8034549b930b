/* Shared by references that sum or round: exactness of results. */
#ifndef WEFT_TESTS_SUMS_H
#define WEFT_TESTS_SUMS_H

#include "movement.h"

/* The type in which values of a type are added up: WEFT_F32 for 16 bits. */
weft_dtype wide_type(weft_dtype dtype);
/* 2^-23 for WEFT_F32 and 16 bits, 2^-52 for WEFT_F64. */
double epsilon_of(weft_dtype dtype);

/* Sets element i to a number rounded to the type; `slack`: its error before rounding. */
void set_number(scene *s, dense *out, int64_t i, double value, double slack);

/* A sum whose addends' magnitudes add up to `mass`, all multiples of `unit` (0: not known), in any order and
 * by any number of ranks: exact where that fits, else off by some roundings of the wide type, one for each
 * addend. Where an input is Partial, each rank's sum is rounded to the type as well. */
void set_sum(scene *s, dense *out, int64_t i, double value, int64_t addends, double mass, double unit);

/* Sums that grow element by element. Truth values are or'ed, integers wrap around in the output's type. */
typedef struct sums {
    double *values, *masses;
    int64_t *counts;
    bool *unsure; /* it could be anything */
} sums;

sums sums_new(scene *s, int64_t count);
/* Element `from` of x is added to sum number `to`. */
void add_to_sum(sums *sum, dense *out, int64_t to, const dense *x, int64_t from);
/* The sums become the output's values, as set_sum() has it. */
void finish_sums(scene *s, const sums *sum, dense *out, double unit);

/* A bound of the magnitudes of an element's addends, and a common divisor. */
double mass_at(const dense *x, int64_t i);

/* The largest number of a floating type, about. */
double largest_of(weft_dtype dtype);

/* A product of numbers, whose magnitudes above 1 multiply to `most` and those below to `least`; `whole`: all
 * are whole numbers. Where x is a Partial product, each rank has some of the factors, in the type of x: these
 * may overflow. */
void set_product_of(scene *s, dense *out, int64_t i, const dense *x, double value, double most, double least,
                    bool whole, int64_t factors, double epsilon);

/* If an input is Partial and does not add up exactly, results that are not linear are unknown. */
void distrust_vague(scene *s, dense *out);

/* If an input is Partial, an addend of 0 times infinity is NaN: the result is unknown then too. */
void distrust_infinite(scene *s, dense *out);

/* A number that is off by some roundings of the wide type, relative to a magnitude that the operation is
 * linear in: where an input is Partial, each addend of the result is rounded to the type as well. */
void set_linear(scene *s, dense *out, int64_t i, double value, double roundings, double magnitude);
bool any_partial(const scene *s);

/* Indices: calls_indexing.c. The second: the index at `at`; -1 where it is out of range. */
bool is_index(const dense *x);
int64_t index_at(const dense *indices, const int64_t at[], int64_t limit);

/* Random numbers: calls_random.c. The state of a call that draws, which it moves on; the number of 0 .. 1 of an element. */
weft_random_state draw(scene *s);
double chance_of(weft_random_state state, int64_t i);

#endif
