/* src/dispatch: the one road every operation takes. Rule and input layouts give the layouts to work on
 * (cached); inputs that lie otherwise are redistributed; the output is made; the operation's lowering submits
 * tasks for each shard that this process hosts. */
#ifndef WEFT_SRC_DISPATCH_H
#define WEFT_SRC_DISPATCH_H

#include "dispatch/strategy.h"
#include "tensor/tensor.h"

enum { WEFT_MAX_RULES = 4 }; /* of one operation */

/* Sets of element types. */
#define WEFT_TYPE_BIT(dtype) (1u << (dtype))
#define WEFT_TYPES_FLOAT (WEFT_TYPE_BIT(WEFT_F64) | WEFT_TYPE_BIT(WEFT_F32))
#define WEFT_TYPES_INDEX (WEFT_TYPE_BIT(WEFT_I64) | WEFT_TYPE_BIT(WEFT_I32))
#define WEFT_TYPES_NUMBER (WEFT_TYPES_FLOAT | WEFT_TYPES_INDEX)

struct weft_operation;

/* One call of an operation, as its public function puts it together. */
typedef struct weft_call {
    const char *function; /* the public function, for messages */
    const struct weft_operation *operation;
    int num_inputs;
    weft_tensor *inputs[WEFT_MAX_INPUTS];
    weft_attributes attributes; /* what the layouts depend on */
    double scalar;              /* what they do not depend on */
} weft_call;

/* What an operation's lowering gets: one hosted shard of the output, which is not empty. The shards of the
 * inputs with the same index are those of the same rank; they may be empty. */
typedef struct weft_lowering {
    const weft_call *call;
    weft_tensor *inputs[WEFT_MAX_INPUTS]; /* in the layouts that were chosen */
    weft_tensor *output;
    int shard;
} weft_lowering;

/* False with the error kept. Knows the rank's boxes and panels; submits tasks; waits for nothing. */
typedef bool (*weft_lower_function)(const weft_lowering *lowering);

/* Chooses the layouts where no rule can: see weft_operation. A status with why, as weft_strategy_search()
 * does. */
typedef weft_status (*weft_choose_function)(const weft_call *call, const weft_layout *const inputs[],
                                            weft_choice *choice, char *why, size_t why_size);

typedef struct weft_operation_input {
    const char *name;   /* of the argument, for messages */
    unsigned types;     /* WEFT_TYPE_BIT of those that are accepted */
    bool type_of_first; /* and the type must be input 0's */
} weft_operation_input;

/* An operation: a constant beside its public function. The output has the type of input 0. */
typedef struct weft_operation {
    const char *name;                  /* for traces */
    const char *rules[WEFT_MAX_RULES]; /* attributes.rule says which; or none and `choose` */
    weft_choose_function choose;
    weft_linearity linear;
    weft_operation_input inputs[WEFT_MAX_INPUTS];
    bool in_place; /* the output is input 0 itself, which keeps its layout */
    /* The output has the elements of input 0, rank by rank in the same order: it shares the memory where it
     * can, and `lower` copies where it cannot. */
    bool views;
    weft_lower_function lower;
} weft_operation;

/* Every operation of the library, for tests; ends with NULL (src/ops/table.c). */
extern const weft_operation *const weft_operation_table[];

/* The output, or NULL with the error kept. All checks come before anything is submitted. */
weft_tensor *weft_dispatch(const weft_call *call);

weft_status weft_dispatch_start(void);
void weft_dispatch_stop(void);

/* ---- what lowerings share (rows.c) --------------------------------------------------------------------- */

static inline const weft_local_shard *weft_lowering_input(const weft_lowering *lowering, int input)
{
    return &lowering->inputs[input]->shards[lowering->shard];
}

static inline const weft_local_shard *weft_lowering_output(const weft_lowering *lowering)
{
    return &lowering->output->shards[lowering->shard];
}

/* A walk along the rows (dimension 0) of an output shard in pieces that lie in one panel of the output and in
 * one panel of every input that is aligned with it: whose rows are the output's rows, by their global
 * numbers. */
typedef struct weft_row_walk {
    const weft_lowering *lowering;
    unsigned aligned;    /* bit i: input i is */
    int64_t end;         /* one past the shard's last row */
    int64_t first, last; /* rows of the present piece */
    const weft_panel *output;
    int64_t output_first, output_last;         /* rows of the panel that the piece is in */
    const weft_panel *inputs[WEFT_MAX_INPUTS]; /* of those aligned */
    int64_t input_first[WEFT_MAX_INPUTS];
    enum starpu_data_access_mode mode; /* for the output: W for the first piece of a panel, then RW */
} weft_row_walk;

void weft_rows_begin(weft_row_walk *walk, const weft_lowering *lowering, unsigned aligned);
/* The next piece; false after the last one. */
bool weft_rows_next(weft_row_walk *walk);

/* Bytes from the start of the panel to the present piece's first row. */
int64_t weft_rows_output_offset(const weft_row_walk *walk);
int64_t weft_rows_input_offset(const weft_row_walk *walk, int input);

/* Adds the present piece of an input that is aligned, or of the output, to a task. */
void weft_rows_add_output(weft_task *task, const weft_row_walk *walk);
void weft_rows_add_input(weft_task *task, const weft_row_walk *walk, int input);

/* Sets the lowering's output shard to a value: where there is nothing to compute from. */
bool weft_lower_fill(const weft_lowering *lowering, double value);

/* Row-major strides, in elements, of a shard with this box. */
void weft_box_strides(int ndim, const weft_box *box, int64_t strides[WEFT_MAX_DIMS]);

#endif
