/** \file
 * User-defined operations: a rule, which gives the relation of all operands' dimensions, and a kernel,
 * which computes one part of the outputs on one rank (<weft/kernel.h>). They are called like weft's own
 * operations: layouts are chosen and cached, inputs redistributed, types and shapes checked, and tasks
 * ordered by their data.
 *
 * A rule is a line of text: inputs, an arrow, outputs. Blanks are ignored.
 *
 *   "mk,kn->mn"     A letter is one index of the operation's loops; equal letters have equal sizes. Each may
 *                   be sharded over ranks. A letter that the output lacks is contracted: if it is sharded,
 *                   each rank's kernel combines its own part, and the output is Partial.
 *   "A,A->A"        A capital letter is a run of any number of dimensions, the same in every operand that has
 *                   it. An operand may have two ("AbC->AC"): the call then gives the length of the first.
 *   "...,...->..."  A run that broadcasts: aligned at its end; missing leading dimensions, and sizes of 1,
 *                   are repeated.
 *   "n[c],n->n"     Dimensions in brackets are not sharded: a kernel gets all of them.
 *   "AbC->A1C"      1 is a dimension of size 1.
 *   "(ab)c->a(bc)"  A dimension of several letters, the first one outermost. It can be sharded along that
 *                   one. The call gives the sizes of letters that are no dimension of an input.
 *   "Ad,A->vd"      A letter of the output alone: each rank computes its own part from whole inputs. The call
 *                   gives its size.
 *   "h~w~->hw"      A dimension of an input read with a halo: an index of the letter reads several indices of
 *                   the dimension (weft_halo). If the letter is sharded each rank also gets its neighbours'
 *                   indices. The dimension has its own size, not the letter's. If no input has the letter without
 *                   "~", the call gives the letter's size; default: that of the first such dimension.
 *   ",n->n"         An operand without dimensions is a scalar.
 *
 * A kernel is called once per panel of the output on each rank (or once per rank, if the output's first
 * letter is in brackets). An input that begins with the output's first letter is passed as the rows with
 * the same global indices, or, with a halo, the rows that these read; other inputs are passed as the
 * rank's whole shard. Halos end at the tensor's borders, which the kernel finds by offset, extent and
 * shape, and treats as it likes (zeros, the nearest element, nothing). Parts of outputs are never empty,
 * parts of inputs may be. One letter may have different extents in the operands of a call, so address
 * elements by global index (index - offset[d]). If a kernel accumulates, all inputs that begin with the
 * contracted letter are cut alike. Test kernels with WEFT_PANEL_ROWS=1, on several layouts: that shows
 * most mistakes.
 *
 * Kernels are called by worker threads, concurrently: they keep no unlocked state, change only the
 * outputs, and call only the functions of <weft/kernel.h>; those for devices (::weft_cuda_kernel) CUDA's as well. */
#ifndef WEFT_OPERATION_H
#define WEFT_OPERATION_H

#include <string.h>

#include <weft/kernel.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** Sets of element types. \{ */
#define WEFT_TYPE_BIT(dtype) (1u << (dtype))
#define WEFT_TYPES_WIDE (WEFT_TYPE_BIT(WEFT_F64) | WEFT_TYPE_BIT(WEFT_F32))
#define WEFT_TYPES_FLOAT (WEFT_TYPES_WIDE | WEFT_TYPE_BIT(WEFT_BF16) | WEFT_TYPE_BIT(WEFT_F16))
#define WEFT_TYPES_INDEX (WEFT_TYPE_BIT(WEFT_I64) | WEFT_TYPE_BIT(WEFT_I32))
#define WEFT_TYPES_INTEGER (WEFT_TYPES_INDEX | WEFT_TYPE_BIT(WEFT_U8))
#define WEFT_TYPES_NUMBER (WEFT_TYPES_FLOAT | WEFT_TYPES_INTEGER)
#define WEFT_TYPES_BOOL WEFT_TYPE_BIT(WEFT_BOOL)
#define WEFT_TYPES_ALL (WEFT_TYPES_NUMBER | WEFT_TYPES_BOOL)
/** \} */

/** The type of an operation's output. */
typedef enum weft_output_type {
    WEFT_TYPE_FIRST = 0, /**< that of input 0 */
    WEFT_TYPE_PROMOTED,  /**< that of all inputs together, as PyTorch promotes types */
    WEFT_TYPE_FLOATING,  /**< the same, but WEFT_F32 for integers and truth values */
    WEFT_TYPE_SUMMED,    /**< that of input 0, but WEFT_I64 for integers and truth values */
    WEFT_TYPE_BOOL,      /**< WEFT_BOOL */
    WEFT_TYPE_INDEX,     /**< WEFT_I64: an index */
    WEFT_TYPE_LAST,      /**< that of the last input */
    WEFT_TYPE_GIVEN      /**< the call says it */
} weft_output_type;

/** Linearity: whether Partial inputs may pass through the operation to a Partial output. */
typedef enum weft_linear_kind {
    WEFT_NOT_LINEAR = 0,
    WEFT_LINEAR_JOINTLY, /**< f(a + a', b + b') = f(a, b) + f(a', b'): all inputs Partial together (add) */
    WEFT_LINEAR_EACH /**< f(a + a', b) = f(a, b) + f(a', b): one input Partial, the others whole (matmul) */
} weft_linear_kind;

typedef struct weft_linearity {
    weft_linear_kind kind;
    unsigned inputs;          /**< of WEFT_LINEAR_EACH: bit i for input i */
    unsigned ops;             /**< bit 1 << op for each ::weft_reduce_op that passes */
    weft_reduce_op contracts; /**< how the parts of a contracted letter are combined: Partial(this) */
} weft_linearity;

/** Linear operations commute with sums and averages, monotone ones with minima and maxima. \{ */
#define WEFT_LINEAR_OPS ((1u << WEFT_SUM) | (1u << WEFT_AVG))
#define WEFT_MONOTONE_OPS ((1u << WEFT_MIN) | (1u << WEFT_MAX))
/** \} */

typedef struct weft_operation_input {
    const char *name;   /**< of the argument, for messages */
    unsigned types;     /**< WEFT_TYPE_BIT() of the accepted types */
    bool type_of_first; /**< and the type must be input 0's */
} weft_operation_input;

/** One output. Zero: a new tensor of input 0's type. */
typedef struct weft_operation_output {
    weft_output_type type; /**< of one that is in place: WEFT_TYPE_FIRST, and its type is that of the input */
    weft_linearity linear; /**< of several outputs: Partial passes where all of them let it */
    /** The input of the same number, changed: it keeps its layout, and has the same term in the rule.
     * Inputs changed in place come first. */
    bool in_place;
    /** Independent of letters that it lacks: ranks along them compute the same, not parts. */
    bool repeats;
} weft_operation_output;

#define WEFT_MAX_HALOS 12 /**< dimensions with "~" in a rule */

/** The indices of an input's dimension ("~" behind its letter) that index i of the letter reads: from
 * (i * times - before) / over, rounded up, to (i * times + after) / over, rounded down, clipped to the
 * tensor. A stencil of radius 1: before = after = 1. Pooling by 2: times = 2, after = 1. Only the previous
 * row: before = 1, after = -1. */
typedef struct weft_halo {
    int input;             /**< its number */
    char letter;           /**< 0 ends the list */
    int64_t before, after; /**< may be negative */
    int64_t times;         /**< 0: 1. Negative: later places read earlier indices */
    int64_t over;          /**< 0: 1 */
} weft_halo;

/** Changes a halo for a call with these numbers (weft_apply_options.numbers, WEFT_MAX_NUMBERS of them). May
 * be called several times per call. Calls no function of weft and keeps no state: equal numbers give equal halos on every process. */
typedef void (*weft_halo_function)(weft_halo *halo, const int64_t numbers[]);

/** An operation that is registered: a handle, as ::weft_tensor. One of a former weft_init() is refused. */
typedef struct weft_operation weft_operation;

/** The wanted gradients of a call. Valid until the function returns. */
typedef struct weft_gradient_request {
    int num_inputs, num_outputs;
    /** As before the call. Inputs and outputs that weft_operation_description.gradient_reads does not name may
     * be without data (weft_tensor_is_fake()): layouts only. */
    weft_tensor *const *inputs, *const *outputs;
    weft_tensor *const *output_gradients;     /**< of the output's shape and type, in any layout; NULL: zero */
    const bool *wanted;                       /**< per input */
    const struct weft_apply_options *options; /**< of the call */
} weft_gradient_request;

/** Writes the wanted gradients, computed by calls of weft, so that nothing waits: each of its input's shape, of
 * any floating type, in any layout; NULL: zero. Broadcast dimensions may be left for weft to sum. Returns
 * WEFT_OK, or the status of a failed call. */
typedef weft_status (*weft_operation_gradient)(const weft_gradient_request *request, weft_tensor *gradients[]);

/** Bits of weft_operation_description.gradient_reads. \{ */
#define WEFT_GRADIENT_READS_INPUT(input) (1u << (input))
#define WEFT_GRADIENT_READS_OUTPUT(output) (1u << (16 + (output)))
/** \} */

/** A program's description of an operation. Zero-initialise it and set the fields that matter; everything
 * is copied. */
typedef struct weft_operation_description {
    const char *name; /**< for messages and traces */
    const char *rule;
    weft_operation_input inputs[WEFT_MAX_KERNEL_INPUTS];    /**< as many as the rule has */
    weft_operation_output outputs[WEFT_MAX_KERNEL_OUTPUTS]; /**< as many as the rule has */
    /** The kernel gets the contracted rows of input 0 in pieces (weft_kernel_call.first, .last): all of
     * them, or several groups of them, whose results are then reduced as those of ranks are. */
    bool accumulates;
    weft_kernel kernel;
    weft_halo halos[WEFT_MAX_HALOS]; /**< one for each "~" of the rule, in any order */
    weft_halo_function halo;         /**< NULL: the halos are the same in every call */
    weft_operation_gradient gradient; /**< NULL: it has none; asking for one is WEFT_ERR_UNSUPPORTED */
    /** The inputs and outputs whose values `gradient` reads: WEFT_GRADIENT_READS_INPUT() | ...; they are kept
     * until then. */
    unsigned gradient_reads;
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    /** The kernel for CUDA devices; NULL: the operation runs on CPUs. Read where `size` is set. `kernel` is needed all the
     * same: for processes without devices, and for operands that a device has no room for. */
    weft_cuda_kernel cuda;
} weft_operation_description;

/** Sets all fields to 0, and `size`. */
static inline void weft_operation_description_init(weft_operation_description *description)
{
    memset(description, 0, sizeof(*description));
    description->size = sizeof(*description);
}

/**
 * Registers an operation; valid until weft_finalize(). Every process registers the same operations in the
 * same order.
 * \return NULL on error: WEFT_ERR_INVALID for a field that is missing or does not fit (the message names the
 *         place in the rule), WEFT_ERR_STATE before weft_init(), WEFT_ERR_NOMEM.
 */
WEFT_API const weft_operation *weft_operation_register(const weft_operation_description *description);

/**
 * Replaces the rule or the kernel of one of weft's operations, or both: from now on every call of it takes the new ones,
 * in public functions of any name and in those that are made of several operations. Gradients stay as they are. A
 * second replacement replaces the first.
 *
 * \param description
 *   name       of the operation (docs/operations.md)
 *   kernel     NULL: as it is. Else in place of weft's own way to make the operation's tasks: it is called as that of a
 *              registered operation is. Its numbers and scalars are those that weft's own kernel gets (src/ops).
 *              `accumulates` and `cuda` belong to it
 *   rule       NULL: as it is. Else with as many outputs as the operation has, and the sizes that the public function
 *              gives; outputs[].linear and `halos` belong to it. Without a kernel it may keep more dimensions whole,
 *              by brackets, and nothing else: calls fail with WEFT_ERR_INVALID where it says other dimensions. With
 *              a kernel, a rule that shards more than the kernel can do gives wrong results
 *   gradient   NULL
 *   inputs, outputs[].type, outputs[].in_place   are not looked at: they stay as they are
 * Every process replaces the same in the same order.
 * \return WEFT_OK; WEFT_ERR_INVALID for a name that no operation has, or a rule that does not fit; WEFT_ERR_STATE,
 *         WEFT_ERR_NOMEM.
 */
WEFT_API weft_status weft_operation_replace(const weft_operation_description *description);
/** Puts weft's own rule and kernel back. WEFT_ERR_INVALID for a name that no operation has. */
WEFT_API weft_status weft_operation_restore(const char *name);

/** Arguments of a call beside its tensors. Zero-initialise it and set the fields that matter. */
typedef struct weft_apply_options {
    int num_numbers;
    int64_t numbers[WEFT_MAX_NUMBERS]; /**< for the kernel. Layouts are remembered for each set of them: let
                                          what changes from call to call be a scalar */
    int num_scalars;
    double scalars[WEFT_MAX_SCALARS]; /**< for the kernel */
    int num_sizes;
    /** The sizes of the letters that no input has as a dimension of its own, in the order in which the
     * rule's text names them: of "(ab)c->ac", a and b; of "Ad,A->vd", v; of "h~w~->hw", h and w, which may be left out. */
    int64_t sizes[WEFT_MAX_NUMBERS];
    int leading;     /**< dimensions of the first run, where an operand has two */
    weft_dtype type; /**< of the output: of WEFT_TYPE_GIVEN */
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_apply_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_apply_options_init(weft_apply_options *options)
{
    const weft_apply_options all = { 0, { 0 }, 0, { 0 }, 0, { 0 }, 0, WEFT_F64, 0 };
    *options = all;
    options->size = sizeof(*options);
}

/**
 * Calls an operation of one output.
 * \param tensors  as many as its rule has inputs, of one mesh
 * \param options  NULL: none
 * \return a new tensor; in place, the first one. NULL on error: as weft's own operations (WEFT_ERR_INVALID,
 *         WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_LAYOUT, WEFT_ERR_MESH).
 */
WEFT_API weft_tensor *weft_apply(const weft_operation *operation, int num_tensors,
                                 weft_tensor *const tensors[], const weft_apply_options *options);

/**
 * Calls an operation of any number of outputs.
 * \param num_outputs  as many as its rule has
 * \param outputs      get new tensors, or the inputs that are changed in place; all NULL on error
 * \return as weft_apply(). Two inputs that are changed and are one tensor: WEFT_ERR_INVALID.
 */
WEFT_API weft_status weft_apply_all(const weft_operation *operation, int num_tensors,
                                    weft_tensor *const tensors[], const weft_apply_options *options,
                                    int num_outputs, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
