/* The transfers of a stage by brute force, independent of src/plan: every rank is tried as a source of
 * every target. */
#ifndef WEFT_TESTS_PLAN_REFERENCE_H
#define WEFT_TESTS_PLAN_REFERENCE_H

#include "plan_support.h"

/* Role of a dimension of the source mesh in a stage. */
typedef enum role { REPLICATES, SHARDS, REDUCES, KEEPS } role;
role role_of(const weft_stage *stage, int m);

/* A box from one rank to another. Box entries that the tensor does not have are 0. */
typedef struct transfer {
    int source, target;
    bool forwarded;
    weft_box box;
} transfer;

/* Appends to a vector of transfers. */
void add_transfer(weft_vec *transfers, int ndim, int source, int target, bool forwarded, const weft_box *box);
/* All that `target` receives, in no particular order. */
void add_expected(weft_vec *expected, const weft_stage *stage, const weft_topology *topology, int target);

/* Fails, naming `what`, when they differ; the order does not matter: both are sorted. */
void assert_same_transfers(weft_vec *expected, weft_vec *found, const char *what);

#endif
