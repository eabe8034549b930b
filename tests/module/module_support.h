/* A small network of modules, for the tests of parallel styles: a table, blocks of norm, two linear layers with a
 * residual, and a head. */
#ifndef WEFT_TESTS_MODULE_SUPPORT_H
#define WEFT_TESTS_MODULE_SUPPORT_H

#include "support.h"

/* embed.weight [VOCABULARY, WIDTH]; layers.i.norm.weight [WIDTH]; layers.i.up.weight [WIDTH, HIDDEN] and .bias [HIDDEN];
 * layers.i.down.weight [HIDDEN, WIDTH] and .bias [WIDTH]; head.weight [WIDTH, VOCABULARY] */
enum { VOCABULARY = 11, WIDTH = 5, HIDDEN = 7, LAYERS = 2, BATCH = 4, SEQUENCE = 5, MAX_PARAMETERS = 32 };
enum { NETWORK_RANKS = 6 };

/* For cmocka_run_group_tests(). \{ */
int network_world_start(void **state);
int network_world_stop(void **state);
/* \} */

/* With values that are small integers, on a mesh of rank 0 alone. With tokens and classes [BATCH, SEQUENCE] as inputs, it
 * gives logits [BATCH, SEQUENCE, VOCABULARY] and the loss: the sum of logits times small integers, or (cross_entropy) the
 * mean cross entropy. */
weft_module *network_new(bool cross_entropy);
/* On that mesh: class numbers below VOCABULARY. */
weft_tensor *network_tokens(int seed);
/* Logits and loss of a network for the tokens 1 and classes 2; `mesh` NULL: on rank 0 alone. */
weft_status network_forward(weft_module *root, weft_mesh *mesh, weft_tensor *outputs[2]);

/* Plans by name: "tp", "sequence", ...; written for a mesh with these names of dimensions. NULL in `name`: the end. */
typedef struct named_plan {
    const char *name, *mesh_names[3];
    const weft_parallel *entries;
    int count;
} named_plan;
extern const named_plan plans[];

/* A mesh of this shape with the plan's names, on the first ranks. */
weft_mesh *mesh_for(const named_plan *plan, const int64_t shape[]);
/* Shapes of meshes for a plan: their number, and a mesh of one of them. \{ */
int num_meshes(const named_plan *plan);
weft_mesh *mesh_number(const named_plan *plan, int number);
/* \} */

#endif
