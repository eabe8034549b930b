/* Shared by the tests of captured graphs. */
#ifndef WEFT_TESTS_GRAPH_SUPPORT_H
#define WEFT_TESTS_GRAPH_SUPPORT_H

#include <weft/predict.h>

#include "autograd_support.h"

/* ---- tensors --------------------------------------------------------------------------------------------- */

/* rows x 3 random numbers in f64 on a line of all ranks, the same ones for each seed. Draws from no other numbers. */
weft_tensor *numbers(uint64_t seed, int64_t rows, const weft_placement *placements);
/* assert_same_shards() of tensors that may be Partial, in the same places NULL. */
void assert_same_tensors(weft_tensor *tensor, weft_tensor *expected, const char *what);

/* ---- graphs ---------------------------------------------------------------------------------------------- */

weft_graph_info info_of(const weft_graph *graph);
/* The text of weft_graph_print(), to be freed. */
char *listing_of(const weft_graph *graph);
/* Fails the test where there is no prediction. */
weft_prediction predict(weft_graph *graph, const weft_predict_options *options);

/* ---- fake worlds ----------------------------------------------------------------------------------------- */

enum { FAKE_RANKS = 8 };

/* For cmocka_unit_test_setup_teardown(): a fake world of FAKE_RANKS. */
int start_fake(void **state);
int stop(void **state);
/* A fake world of so many ranks and processes. */
void start_fake_processes(const char *ranks, const char *processes);

/* ---- random functions ------------------------------------------------------------------------------------ */

enum { MAX_RANDOM_CALLS = 48, RANDOM_OUTPUTS = 3 };

/* Call i makes tensor i + 2 of two of those before it; tensors 0 and 1 are inputs. */
typedef struct random_graph {
    int num_calls;
    int kind[MAX_RANDOM_CALLS], first[MAX_RANDOM_CALLS], second[MAX_RANDOM_CALLS];
    int kept[RANDOM_OUTPUTS]; /* the outputs */
} random_graph;

/* Less than `most` calls; `near`: mostly of tensors just before, and the last one is an output. */
random_graph random_graph_make(prng *random, int most, int num_kinds, bool near);

/* ---- a step of training ---------------------------------------------------------------------------------- */

enum { BATCH_ROWS = 64, BATCH_WIDTH = 32, MLP_HIDDEN = 256, MLP_WEIGHTS = 2 };

/* An MLP with gelu and dropout in f32, on a mesh (dp, 2), with AdamW's moments. */
typedef struct trained_mlp {
    weft_mesh *mesh;
    weft_tensor *weights[MLP_WEIGHTS], *first[MLP_WEIGHTS], *second[MLP_WEIGHTS];
    int64_t step;
} trained_mlp;

trained_mlp mlp_make(void);
weft_tensor *mlp_batch(const trained_mlp *m);
weft_tensor *mlp_forward(const trained_mlp *m, weft_tensor *x);
/* One step: the backward pass, `midway(loss)` where that is not NULL, AdamW. *out: the loss, detached. */
weft_status mlp_descend(trained_mlp *m, weft_tensor *loss, void (*midway)(weft_tensor *loss), double rate, weft_tensor **out);

#endif
