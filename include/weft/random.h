/** \file
 * Random numbers, and their states.
 *
 * A random value depends only on the seed of the current state, on the number of random operations since
 * it was seeded (its offset), and on the element's index in the GLOBAL tensor (Philox4x32-10): it is the
 * same on every mesh, in every layout and on any number of processes, bit for bit. Every random operation
 * advances the current state by one, on any mesh; one that fails does not. States belong to the whole
 * world: all processes make the same calls, also those without a rank of the mesh.
 *
 * Placements of factories are as in <weft/tensor.h>: NULL is Replicate everywhere, Partial is
 * WEFT_ERR_LAYOUT. */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** The state of the generator. Equal states give equal values for the same operations. */
typedef struct weft_random_state {
    uint64_t seed;
    uint64_t offset; /**< random operations since it was seeded */
} weft_random_state;

/**
 * States by name. weft_init() makes the default state (with the seed of ::weft_config), which is the current
 * one; its name is NULL. Errors: WEFT_ERR_INVALID for an empty or unknown name (in weft_random_state_create():
 * an existing one), WEFT_ERR_STATE before weft_init(), WEFT_ERR_NOMEM.
 * \{
 */
/** Seeds the current state: its offset is 0 again. */
WEFT_API weft_status weft_random_seed(uint64_t seed);
/** A new state, not the current one. The name is copied. */
WEFT_API weft_status weft_random_state_create(const char *name, uint64_t seed);
WEFT_API weft_status weft_random_state_use(const char *name);
/** The name of the current state, NULL for the default one; valid until weft_finalize(). */
WEFT_API const char *weft_random_state_current(void);
WEFT_API weft_status weft_random_state_get(const char *name, weft_random_state *state);
WEFT_API weft_status weft_random_state_set(const char *name, weft_random_state state);
/** The names of the states that were created, in that order, the first `max` of them into `names` (valid
 * until weft_finalize()). Returns how many there are; -1 on error. */
WEFT_API int weft_random_states(int max, const char *names[]);
/** \} */

/** Uniform on [0, 1); normal with mean 0 and variance 1. Floating types. \{ */
WEFT_API weft_tensor *weft_rand(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_randn(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
/** \} */
/** The same with the shape, type, mesh and placements of a, but Replicate where a is Partial. \{ */
WEFT_API weft_tensor *weft_rand_like(weft_tensor *a);
WEFT_API weft_tensor *weft_randn_like(weft_tensor *a);
/** \} */

/** Integers low .. high - 1, uniformly. Integer types and WEFT_BOOL, which must hold these numbers; low is less
 * than high (WEFT_ERR_INVALID). */
WEFT_API weft_tensor *weft_randint(int64_t low, int64_t high, weft_dtype dtype, int ndim,
                                   const int64_t shape[], weft_mesh *mesh, const weft_placement *placements);

/** The numbers 0 .. n - 1, WEFT_I64, in random order. Every rank computes its own part, without memory for
 * the rest. */
WEFT_API weft_tensor *weft_randperm(int64_t n, weft_mesh *mesh, const weft_placement *placements);

/** 1 with the probability in the element of `p` (resolved to 2^-32), else 0; of p's type, which is floating. A
 * probability outside 0 .. 1 gives 0, and the next blocking call returns WEFT_ERR_INVALID. */
WEFT_API weft_tensor *weft_bernoulli(weft_tensor *p);
/** The same with one probability for all elements, in any type. */
WEFT_API weft_tensor *weft_bernoulli_scalar(double p, weft_dtype dtype, int ndim, const int64_t shape[],
                                            weft_mesh *mesh, const weft_placement *placements);

/** In place: random values for an existing floating tensor, which keeps its layout (no Partial). Returns it.
 * weft_uniform_inplace: on [low, high), or low if they are equal; both, and their distance, finite in a's
 * type. weft_normal_inplace: the deviation is at least 0. \{ */
WEFT_API weft_tensor *weft_uniform_inplace(weft_tensor *a, double low, double high);
WEFT_API weft_tensor *weft_normal_inplace(weft_tensor *a, double mean, double deviation);
/** \} */

/**
 * Dropout. While training, each element of a (floating) becomes 0 with probability p and is otherwise divided
 * by 1 - p (p 1: all become 0). Without training the result is a itself, and the random state does not
 * advance. A Partial (sum or average) tensor stays Partial: the same elements are dropped in all addends.
 * \param mask  NULL, or set to the mask, WEFT_BOOL with the layout of a (Replicate for Partial): true for
 *              elements that were kept; NULL without training. A new tensor, as the result is. */
WEFT_API weft_tensor *weft_dropout(weft_tensor *a, double p, bool training, weft_tensor **mask);
/** The same for whole channels of a [n, c, ...]: PyTorch's dropout1d, dropout2d and dropout3d. The mask is [n, c, 1, ...], and
 * Replicate where a is sharded in another dimension. WEFT_ERR_SHAPE for less than two dimensions. */
WEFT_API weft_tensor *weft_dropout2d(weft_tensor *a, double p, bool training, weft_tensor **mask);

WEFT_END_DECLS

#endif
