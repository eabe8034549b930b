/* src/dispatch: the one road every operation takes. Rule and input layouts give the layouts to work on
 * (cached); inputs that lie otherwise are redistributed; the output is made; the operation's lowering submits
 * tasks for each shard that this process hosts. */
#ifndef WEFT_SRC_DISPATCH_H
#define WEFT_SRC_DISPATCH_H

#include "sharding/sharding.h"
#include "tasks/tasks.h"
#include "tensor/actions.h"

enum { WEFT_MAX_STEP_OUTPUTS = 4 };

/* What a lowering makes tasks from: layouts and attributes, and nothing else. So the tasks of one call are
 * those of any other call with the same. One hosted shard of each output, of which one at least is not empty; the
 * shards of the inputs are those of the same rank, and may be empty. A weft_lower_function appends the tasks of the shard to
 * `tasks`; false: no memory (the list has failed), or an error is kept. PURE. */
typedef struct weft_lowering {
    const char *function; /* the public function, for messages */
    const weft_operation *operation;
    const weft_attributes *attributes;
    int num_inputs;
    const weft_layout *inputs[WEFT_MAX_INPUTS]; /* the layouts that were chosen; of windows, of these */
    /* The input is what the ranks need of it; NULL: it is itself. Windows that are placed: it is itself, and
     * is written into the output behind the tasks of the lowering, which leaves it out. */
    const weft_access_map *access_map[WEFT_MAX_INPUTS];
    int num_outputs;
    const weft_layout *output; /* the first one */
    const weft_layout *outputs[WEFT_MAX_OUTPUTS];
    const weft_sharding *sharding;
    int shard; /* number of the rank among those hosted here */
    weft_shard_info input_shards[WEFT_MAX_INPUTS], output_shards[WEFT_MAX_OUTPUTS];
    weft_task_list *tasks; /* where they go */
} weft_lowering;

/* Every operation of the library, family by family; both lists end with NULL (src/ops/table.c). */
extern const weft_operation *const *const weft_operation_families[];

/* The output of an operation that has one, or NULL with the error kept. All checks come before anything is submitted.
 */
weft_tensor *weft_dispatch(const weft_call *call);
/* All outputs: weft_call_num_outputs(), of which those that were not asked for are NULL. False with the error kept. */
bool weft_dispatch_all(const weft_call *call, weft_tensor *outputs[]);
/* The operation itself, also where the call expands: for its body. */
weft_tensor *weft_dispatch_itself(const weft_call *call);
bool weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[]);
/* Carries out what a recorder was told: a call of an operation or of an action. */
weft_status weft_invoke(const weft_call *call, weft_tensor *outputs[]);
/* What the sharding of a call depends on, whose inputs are live. */
void weft_call_get_layouts(const weft_call *call, weft_call_layouts *layouts);

/* Whether weft_dispatch() would carry the call out itself; else it has failed, as by weft_dispatch(). */
bool weft_dispatch_accepts(const weft_call *call);

/* What weft_dispatch() checks of its inputs, for functions that need it before they call it. False with the
 * error kept. */
bool weft_check_same_mesh(const char *function, const char *first_name, const weft_layout *first,
                          const char *other_name, const weft_layout *other);

/* For tests: from now on calls work on number `combination` of the combinations of strategies that are
 * possible (modulo how many a call has), not on the cheapest, and nothing is looked up or kept; negative:
 * the cheapest again. Returns how many combinations the call with the most had since the last time.
 * Operations that choose their layouts themselves take no part. */
int64_t weft_dispatch_force(int64_t combination);

/* ---- inside src/dispatch -------------------------------------------------------------------------------- */

/* Whether the call is one of a composite that becomes other calls; and that call (composite.c). */
bool weft_call_expands(const weft_call *call);
bool weft_composite_call(const weft_call *call, weft_tensor *outputs[]);
/* Whether a composite that may also become tasks by itself would be accepted then: it is checked as that is. False with
 * the error kept. */
bool weft_composite_accepts(const weft_call *call, weft_tensor_impl *const inputs[]);
/* weft_check_spmd(); `valid`: the inputs are live tensors that fit together (signature.c). */
bool weft_dispatch_check_spmd(const weft_call *call, weft_tensor_impl *const inputs[], bool valid);

weft_status weft_dispatch_start(void);
void weft_dispatch_stop(void);
/* Forgets the operations that the program has registered (registered.c): when nothing names them any more. */
void weft_operations_forget(void);

/* The lowering of operations that have a kernel. A task for each panel of the output, or one for the shard
 * where its rows must stay together; it takes of each input the panels that weft_sharding.rows says. Of an
 * operation that accumulates: a task for each panel of the contracted rows, in their order. */
bool weft_lower_kernel(const weft_lowering *lowering);
/* The lowering of elementwise operations, with broadcasting, for inputs of any types. */
bool weft_lower_elementwise(const weft_lowering *lowering);

/* ---- what lowerings share (rows.c) --------------------------------------------------------------------- */

static inline const weft_shard_info *weft_lowering_input(const weft_lowering *lowering, int input)
{
    return &lowering->input_shards[input];
}

static inline const weft_shard_info *weft_lowering_output(const weft_lowering *lowering)
{
    return &lowering->output_shards[0];
}

/* A panel of an input, and of an output, which in place is the input of the same number. */
static inline weft_slot weft_input_slot(const weft_lowering *lowering, int input, int64_t panel)
{
    return (weft_slot){ input, lowering->shard, panel };
}

weft_slot weft_output_slot(const weft_lowering *lowering, int output, int64_t panel);

/* The number of the panel that holds global row `row` of a shard, and the rows [*first, *last) that the panel
 * holds: what row-wise lowering walks along. ndim 0: row 0 of [0, 1). */
int64_t weft_shard_panel_at(const weft_layout *layout, const weft_shard_info *shard, int64_t row,
                            int64_t *first, int64_t *last);

/* A walk along the rows (dimension 0) of an output shard in pieces that lie in one panel of the output and in
 * one panel of every input that is aligned with it: whose rows are the output's rows, by their global
 * numbers. */
typedef struct weft_row_walk {
    const weft_lowering *lowering;
    unsigned aligned;    /* bit i: input i is */
    int64_t end;         /* one past the shard's last row */
    int64_t first, last; /* rows of the present piece */
    weft_slot output;
    int64_t output_first, output_last; /* rows of the panel that the piece is in */
    weft_slot inputs[WEFT_MAX_INPUTS]; /* of those aligned */
    int64_t input_first[WEFT_MAX_INPUTS];
    weft_slot_access access; /* of the output: written by the first piece of a panel, then changed */
} weft_row_walk;

void weft_rows_begin(weft_row_walk *walk, const weft_lowering *lowering, unsigned aligned);
/* The next piece; false after the last one. */
bool weft_rows_next(weft_row_walk *walk);

/* Bytes from the start of the panel to the present piece's first row. */
int64_t weft_rows_output_offset(const weft_row_walk *walk);
int64_t weft_rows_input_offset(const weft_row_walk *walk, int input);

/* Adds the present piece of the output, or of an input that is aligned, to the task that was begun. */
void weft_rows_add_output(const weft_row_walk *walk);
void weft_rows_add_input(const weft_row_walk *walk, int input);
/* Ends it: its position is that of the piece. */
bool weft_rows_end_task(const weft_row_walk *walk);
/* Where row `row` of the output lies among all: see weft_row_position(). */
double weft_lowering_position(const weft_lowering *lowering, int64_t row);

/* Sets the lowering's output shard to a value: where there is nothing to compute from. */
bool weft_lower_fill(const weft_lowering *lowering, double value);

/* Of an operation f(a, b, c) = g(a, b) + c, where g is linear in both: whether this rank adds c, which is
 * `input`. Along mesh dimensions where the output is Partial(sum) and c is not, coordinate 0 alone does. */
bool weft_lowering_adds(const weft_lowering *lowering, int input);

/* Row-major strides, in elements, of a shard with this box. */
void weft_box_strides(int ndim, const weft_box *box, int64_t strides[WEFT_MAX_DIMS]);

#endif
