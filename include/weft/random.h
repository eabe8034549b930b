/** \file
 * Random numbers, and their states.
 *
 * A random value depends only on the seed of the current state, on the number of random operations since it was
 * seeded (its offset), and on the element's index in the GLOBAL tensor (Philox4x32-10). So it is the same on every
 * mesh, in every layout and on any number of processes, bit for bit. Every random operation advances the current
 * state by one, on any mesh; if it fails, the state does not change. States belong to the whole world: all processes
 * make the same calls, even those without a rank of the mesh. Kernels of your own draw such numbers by the functions of
 * <weft/kernel.h>.
 *
 * Placements of factories are as in <weft/tensor.h>: NULL is Replicate everywhere, Partial is WEFT_ERR_LAYOUT. */
#ifndef WEFT_RANDOM_H
#define WEFT_RANDOM_H

#include <weft/kernel.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/**
 * States by name. weft_init() creates the default state, with the seed of ::weft_config, and makes it the current
 * one. The name of the default state is NULL. Errors: WEFT_ERR_INVALID if a name is empty or unknown (in
 * weft_random_state_create(), if it exists already), WEFT_ERR_STATE before weft_init(), WEFT_ERR_NOMEM. \{
 */
/** Seeds the current state and resets its offset to 0. */
WEFT_API weft_status weft_random_seed(uint64_t seed);
/** Creates a state without making it the current one (weft_random_state_use() does that). The name is copied. */
WEFT_API weft_status weft_random_state_create(const char *name, uint64_t seed);
WEFT_API weft_status weft_random_state_use(const char *name);
/** Returns the name of the current state; NULL for the default state. Valid until weft_finalize(). */
WEFT_API const char *weft_random_state_current(void);
WEFT_API weft_status weft_random_state_get(const char *name, weft_random_state *state);
WEFT_API weft_status weft_random_state_set(const char *name, weft_random_state state);
/** Lists the names of the states that you created, in the order of creation. Writes the first `max` of them to `names`
 * (valid until weft_finalize()). Returns how many there are; -1 on error. */
WEFT_API int weft_random_states(int max, const char *names[]);
/** \} */

/** Create random tensors of a floating type. weft_rand() is uniform on [0, 1); weft_randn() is normal with mean 0 and
 * variance 1.
 *
 *     weft_tensor *w = weft_randn(WEFT_F32, 2, (int64_t[]){ 64, 32 }, mesh, by_rows);
 *
 * \{ */
WEFT_API weft_tensor *weft_rand(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                const weft_placement *placements);
WEFT_API weft_tensor *weft_randn(weft_dtype dtype, int ndim, const int64_t shape[], weft_mesh *mesh,
                                 const weft_placement *placements);
/** \} */
/** The same with the shape, type, mesh and placements of a. Partial becomes Replicate. \{ */
WEFT_API weft_tensor *weft_rand_like(weft_tensor *a);
WEFT_API weft_tensor *weft_randn_like(weft_tensor *a);
/** \} */

/** Creates uniformly distributed integers low .. high - 1. The type must be an integer type or WEFT_BOOL, and be able
 * to represent these numbers; low must be less than high (WEFT_ERR_INVALID).
 *
 *     weft_tensor *dice = weft_randint(WEFT_I64, 1, 7, 1, (int64_t[]){ 100 }, mesh, NULL); */
WEFT_API weft_tensor *weft_randint(weft_dtype dtype, int64_t low, int64_t high, int ndim, const int64_t shape[],
                                   weft_mesh *mesh, const weft_placement *placements);

/** Creates a random permutation of the numbers 0 .. n - 1, WEFT_I64. Every rank computes only its own part, and needs
 * no memory for the rest. */
WEFT_API weft_tensor *weft_randperm(int64_t n, weft_mesh *mesh, const weft_placement *placements);

/** Draws 1 with the probability given by the element of `p` (resolved to 2^-32), otherwise 0. The result has p's type,
 * which must be floating. A probability outside 0 .. 1 gives 0, and the next blocking call returns WEFT_ERR_INVALID. */
WEFT_API weft_tensor *weft_bernoulli(weft_tensor *p);
/** The same with one probability for all elements, in any type.
 *
 *     weft_tensor *coins = weft_bernoulli_scalar(WEFT_BOOL, 0.5, 1, (int64_t[]){ 100 }, mesh, NULL); */
WEFT_API weft_tensor *weft_bernoulli_scalar(weft_dtype dtype, double p, int ndim, const int64_t shape[],
                                            weft_mesh *mesh, const weft_placement *placements);

/** Fill an existing floating tensor with random values, in place, and return it. The tensor keeps its layout and must
 * not be Partial. weft_uniform_inplace() draws from [low, high), or returns low if they are equal; both, and their
 * distance, must be finite in a's type. weft_normal_inplace() needs a deviation of at least 0. \{ */
WEFT_API weft_tensor *weft_uniform_inplace(weft_tensor *a, double low, double high);
WEFT_API weft_tensor *weft_normal_inplace(weft_tensor *a, double mean, double deviation);
/** \} */

/**
 * Dropout. While training, each element of a (floating, complex) becomes 0 with probability p, and is otherwise divided by 1 -
 * p (if p is 1, all become 0). Without training the result is a itself, and the random state does not advance. A
 * Partial (sum or average) tensor stays Partial: the same elements are dropped in all addends.
 *
 * \param mask  NULL, or receives the mask, a new tensor: WEFT_BOOL in the layout of a (Replicate instead of Partial),
 *              true for elements that were kept; NULL without training.
 */
WEFT_API weft_tensor *weft_dropout(weft_tensor *a, double p, bool training, weft_tensor **mask);
/** Dropout of whole channels of a [n, c, ...]: PyTorch's dropout1d, dropout2d and dropout3d. The mask is [n, c, 1,
 * ...], and Replicate along mesh dimensions that shard another dimension of a. WEFT_ERR_SHAPE if a has fewer than two
 * dimensions. */
WEFT_API weft_tensor *weft_dropout2d(weft_tensor *a, double p, bool training, weft_tensor **mask);

WEFT_END_DECLS

#endif
