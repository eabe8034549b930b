/* tools: shared by the files of weft-plan. */
#ifndef WEFT_TOOLS_PLAN_H
#define WEFT_TOOLS_PLAN_H

#include "sharding/sharding.h"

enum { PLAN_MAX_RANKS = 1 << 20, PLAN_MAX_INPUTS = WEFT_MAX_INPUTS };

/* Prints a message on an option, and exits with status 2. */
WEFT_PRINTF(2, 3)
_Noreturn void plan_refuse(const char *option, const char *text, ...);
_Noreturn void plan_out_of_memory(void);

/* ---- reading options (weft_plan_input.c): what is wrong is refused -------------------------------------- */

typedef struct plan_sizes {
    int count;
    int64_t items[WEFT_MAX_DIMS];
} plan_sizes;

int64_t plan_read_number(const char *option, const char *text, int64_t least, int64_t most);
plan_sizes plan_read_sizes(const char *option, const char *text, int64_t least);
plan_sizes plan_read_shape(const char *option, const char *text, weft_dtype dtype);
weft_dtype plan_read_dtype(const char *option, const char *text);
weft_algorithm plan_read_algorithm(const char *text);
weft_mesh_impl *plan_read_mesh(const char *option, const char *text);
void plan_read_placements(const char *option, const char *text, const weft_mesh_impl *mesh, int ndim, const int64_t shape[],
                          weft_placement out[]);
weft_topology plan_make_topology(int64_t num_ranks, int64_t local_ranks);

/* ---- operations (weft_plan_op.c) ------------------------------------------------------------------------ */

/* Options of --op, unparsed; NULL: not given. */
typedef struct plan_op_options {
    const char *op, *mesh, *local_ranks, *algorithm, *sizes, *leading, *rule, *type, *linear;
    const char *inputs[PLAN_MAX_INPUTS + 1];
    int num_inputs;
    const char *halos[WEFT_MAX_HALOS];
    int num_halos;
    bool json;
} plan_op_options;

/* Explains a call. Returns the exit status. */
int plan_explain(const plan_op_options *options);

#endif
