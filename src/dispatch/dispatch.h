/* src/dispatch: the path of every operation. Rule and input layouts determine the layouts to work on
 * (cached); inputs in other layouts are redistributed; outputs are allocated; the operation's lowering
 * builds a task list (cached) for the shards that this process hosts, which is then run. */
#ifndef WEFT_SRC_DISPATCH_H
#define WEFT_SRC_DISPATCH_H

#include "sharding/sharding.h"
#include "tasks/tasks.h"
#include "tensor/actions.h"

enum { WEFT_MAX_STEP_OUTPUTS = 4 };

enum { WEFT_ROWS_BEFORE, WEFT_ROWS_BEHIND, WEFT_ROWS_SIDES };

/* Tensors of a list: inputs, outputs, neighbours' rows. */
enum { WEFT_MAX_LIST_TENSORS = WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS + WEFT_ROWS_SIDES * WEFT_MAX_INPUTS };

/* The rows before each rank's shard, or after it, as a tensor of so many rows for each part. */
typedef struct weft_neighbour_rows {
    int64_t rows; /* 0: none, and no tensor */
    weft_access_map map;
    const weft_layout *layout; /* of the tensor */
    int tensor;                /* its number in the list */
} weft_neighbour_rows;

/* An input that is read in place, with neighbours' rows from tensors of their own. */
typedef struct weft_neighbours {
    int64_t height; /* of the panels that the kernel sees: parts begin at its multiples. 0: not read in place */
    int64_t shift;  /* added to row numbers that may be negative: a multiple of the height, or 0 */
    weft_neighbour_rows sides[WEFT_ROWS_SIDES];
} weft_neighbours;

/* A part of an operand along a dimension other than the first, from local index `start` on. Kernels see it as indices first,
 * first + 1, ..., which are global ones where the cut has several runs. */
typedef struct weft_dim_run {
    int from_end; /* 1: the last dimension. Operands of one call may have different numbers of dimensions before it */
    int64_t start, count, first;
} weft_dim_run;

/* Argument of a lowering: layouts and attributes only, so calls that agree in these have the same task
 * list. Describes one hosted shard of each output, of which at least one is not empty; the input shards
 * are those of the same rank, and may be empty. A weft_lower_function appends the shard's tasks to
 * `tasks`; false: no memory (the list has failed), or an error is kept. PURE. */
typedef struct weft_lowering {
    const char *function; /* the public function, for messages */
    const weft_operation *operation;
    const weft_attributes *attributes;
    int num_inputs;
    const weft_layout *inputs[WEFT_MAX_INPUTS]; /* chosen; with an access map, of the tensor it reads */
    /* The input holds the elements that the rank reads through this map; NULL: it holds its shard. Placed
     * maps: it holds its shard, and is written to the output after the lowering's tasks, which leave it
     * out. */
    const weft_access_map *access_map[WEFT_MAX_INPUTS];
    const weft_neighbours *neighbours[WEFT_MAX_INPUTS]; /* the input is its shard, and these; NULL: none */
    int num_outputs;
    const weft_layout *output; /* output 0 */
    const weft_layout *outputs[WEFT_MAX_OUTPUTS];
    const weft_sharding *sharding;
    int shard; /* number of the rank among the hosted ones */
    weft_shard_info input_shards[WEFT_MAX_INPUTS], output_shards[WEFT_MAX_OUTPUTS];
    weft_task_list *tasks; /* receives the tasks */
    unsigned ghosted; /* bit i: input i is an array with margins (tensor/ghosts.h), which its access map describes */
    const weft_dim_run *runs[WEFT_MAX_INPUTS + WEFT_MAX_OUTPUTS]; /* of inputs, then outputs, for kernels on views; NULL: all of it */
} weft_lowering;

/* Every operation of the library by family; both lists end with NULL (src/ops/table.c). */
extern const weft_operation *const *const weft_operation_families[];

/* Output 0 of an operation with one output, or with no other asked for (weft_attributes.omitted); NULL with
 * the error kept. All checks come before the first submission. */
weft_tensor *weft_dispatch(const weft_call *call);
/* All weft_call_num_outputs() outputs; those not asked for are NULL. False with the error kept. */
bool weft_dispatch_all(const weft_call *call, weft_tensor *outputs[]);
/* The operation's own tasks, even if the call expands: for the body of a composite. */
weft_tensor *weft_dispatch_itself(const weft_call *call);
bool weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[]);
/* Executes a recorded call of an operation or of an action. */
weft_status weft_invoke(const weft_call *call, weft_tensor *outputs[]);
/* The input of the choice of layouts, for a call with live inputs. */
void weft_call_get_layouts(const weft_call *call, weft_call_layouts *layouts);

/* The check of weft_dispatch(), for functions that need it earlier. False with the error kept. */
bool weft_check_same_mesh(const char *function, const char *first_name, const weft_layout *first,
                          const char *other_name, const weft_layout *other);

/* For tests: calls use number `combination` (modulo their number) of the possible combinations of
 * strategies instead of the cheapest, without the cache; negative: the cheapest again. Returns the largest
 * number of combinations of any call since the last time. Operations that choose their own layouts are not
 * affected. */
int64_t weft_dispatch_force(int64_t combination);

/* ---- inside src/dispatch -------------------------------------------------------------------------------- */

/* Whether the call is one of a composite that expands; executes it (composite.c). */
bool weft_call_expands(const weft_call *call);
bool weft_composite_call(const weft_call *call, weft_tensor *outputs[]);
/* Executes its body; outputs that are not asked for become NULL. */
bool weft_composite_body(const weft_call *call, weft_tensor *outputs[]);
/* Checks the call against the composite's rule; true without one. False with the error kept. */
bool weft_composite_accepts(const weft_call *call, weft_tensor_impl *const inputs[]);
/* weft_check_spmd(); `valid`: the inputs are live and compatible tensors (signature.c). */
bool weft_dispatch_check_spmd(const weft_call *call, weft_tensor_impl *const inputs[], bool valid);
/* weft_spmd_number() of a call on live tensors. False with the error kept: no memory. */
bool weft_dispatch_take_number(const weft_call *call);

weft_status weft_dispatch_start(void);
void weft_dispatch_stop(void);
/* weft_meet_layout() for all layouts of cached calls and expansions. */
void weft_dispatch_meet_layouts(void);
/* The parts of an input that ranks read along sharded dimensions with an access map; none: its `cut` is NULL. False with
 * the error kept (lower.c). */
bool weft_find_access(const weft_call *call, const weft_sharding *sharding, int input,
                      weft_access_map *access_map);
/* Whether an input of this layout is read in place, with what its map brings in rows of neighbours. False with the error
 * kept (neighbours.c). */
bool weft_find_neighbours(const weft_call *call, const weft_layout *from, const weft_access_map *map,
                          weft_neighbours *neighbours);
/* The window of a dimension of an input of this layout; without "~" that of one index (ghosts.c). */
weft_window weft_window_in_array(const weft_operation *operation, const weft_attributes *attributes, const weft_layout *layout,
                                 int num_inputs, int input, int dim);
/* Whether its data go straight into the output. */
bool weft_is_placed(const weft_call *call, const weft_sharding *sharding, const weft_access_map *map);
/* Appends the tasks of all hosted shards; the lowering is complete but for these. False with the error kept. */
bool weft_lower_shards(weft_lowering *lowering);
/* The tasks of a call in these layouts, whose inputs need no data; layouts[]: those of the list's tensors. False with the
 * error kept. */
bool weft_dispatch_lower(const weft_call *call, const weft_sharding *sharding, const weft_layout *layouts[],
                         weft_task_list *tasks);
/* Explains an accepted call, while the program asks for that (explain.c). */
void weft_explain_dispatch(const weft_call *call, weft_tensor_impl *const inputs[]);
/* The operation that takes this one's place, or itself (replaced.c). */
const weft_operation *weft_operation_in_use(const weft_operation *operation);
void weft_replacements_forget(void);
/* Frees the operations registered by the program (registered.c), when no call names them any longer. */
void weft_operations_forget(void);

/* The lowering of operations with a kernel. One task per panel of the output, or one per shard if its rows
 * must stay together; weft_sharding.rows says which panels of each input it reads. Accumulating
 * operations: one task per panel of the contracted rows, in their order, and per panel of the output or range of panels. */
bool weft_lower_kernel(const weft_lowering *lowering);
/* The lowering of elementwise operations, with broadcasting, for inputs of any types. */
bool weft_lower_elementwise(const weft_lowering *lowering);
/* The types of an elementwise call's arguments, and whether its output leaves the caches; of the lowering: operation, inputs and output.
 * The rest of *args is 0. */
struct weft_elementwise_args;
void weft_elementwise_types(const weft_lowering *lowering, struct weft_elementwise_args *args);

/* ---- what lowerings share (rows.c) --------------------------------------------------------------------- */

static inline const weft_shard_info *weft_lowering_input(const weft_lowering *lowering, int input)
{
    return &lowering->input_shards[input];
}

static inline const weft_shard_info *weft_lowering_output(const weft_lowering *lowering)
{
    return &lowering->output_shards[0];
}

/* A panel of an input, and of an output, which in place is the input with the same number. */
static inline weft_slot weft_input_slot(const weft_lowering *lowering, int input, int64_t panel)
{
    return (weft_slot){ input, lowering->shard, panel };
}

weft_slot weft_output_slot(const weft_lowering *lowering, int output, int64_t panel);

/* The panel with global row `row` of a shard, and its rows [*first, *last), for row-wise lowering. ndim 0:
 * row 0 of [0, 1). */
int64_t weft_shard_panel_at(const weft_layout *layout, const weft_shard_info *shard, int64_t row,
                            int64_t *first, int64_t *last);

/* Iterates over the rows (dimension 0) of an output shard in pieces that lie in one panel of the output
 * and of every aligned input, whose rows are the output's rows by global index. */
typedef struct weft_row_walk {
    const weft_lowering *lowering;
    unsigned aligned;    /* bit i: input i is aligned */
    int64_t end;         /* one past the shard's last row */
    int64_t first, last; /* rows of the current piece */
    weft_slot output;
    int64_t output_first, output_last; /* rows of the output's panel that contains the piece */
    weft_slot inputs[WEFT_MAX_INPUTS]; /* of aligned inputs */
    int64_t input_first[WEFT_MAX_INPUTS];
    weft_slot_access access; /* of the output: the first piece of a panel writes, later ones change it */
} weft_row_walk;

void weft_rows_begin(weft_row_walk *walk, const weft_lowering *lowering, unsigned aligned);
/* The next piece; false after the last one. */
bool weft_rows_next(weft_row_walk *walk);

/* Bytes from the start of the panel to the current piece's first row. */
int64_t weft_rows_output_offset(const weft_row_walk *walk);
int64_t weft_rows_input_offset(const weft_row_walk *walk, int input);

/* Adds the current piece of the output, or of an aligned input, to the open task. */
void weft_rows_add_output(const weft_row_walk *walk);
void weft_rows_add_input(const weft_row_walk *walk, int input);
/* Ends the task, with the position of the piece. */
bool weft_rows_end_task(const weft_row_walk *walk);
/* Position of row `row` of the output among all: see weft_row_position(). */
double weft_lowering_position(const weft_lowering *lowering, int64_t row);

/* Fills the lowering's output shard with a value, if there is nothing to compute from. */
bool weft_lower_fill(const weft_lowering *lowering, weft_exact value);

/* For an operation f(a, b, c) = g(a, b) + c with g linear in both: whether this rank adds c, which is
 * `input`. Along mesh dimensions where the output is Partial(sum) and c is not, only coordinate 0 does. */
bool weft_lowering_adds(const weft_lowering *lowering, int input);

/* Row-major strides, in elements, of a shard with this box. */
void weft_box_strides(int ndim, const weft_box *box, int64_t strides[WEFT_MAX_DIMS]);

#endif
