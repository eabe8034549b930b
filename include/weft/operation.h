/** \file
 * User-defined operations. An operation has a rule, which relates the dimensions of all operands, and a kernel, which
 * computes one part of the outputs on one rank (<weft/kernel.h>). You call it like one of weft's own operations: weft
 * chooses and caches layouts, redistributes inputs, checks types and shapes, and orders tasks by their data.
 *
 * A rule is a line of text: inputs, an arrow, outputs. Blanks are ignored.
 *
 *   "mk,kn->mn"     A letter is one index of the operation's loops; equal letters have equal sizes. Each letter
 *                   may be sharded over ranks. A letter that the output lacks is contracted: if it is sharded,
 *                   each rank's kernel combines its own part, and the output is Partial.
 *   "A,A->A"        A capital letter is a run of any number of dimensions, the same in every operand that has
 *                   it. An operand may have two ("AbC->AC"); then the call gives the length of the first.
 *   "...,...->..."  A run that broadcasts. Runs are aligned at their ends; missing leading dimensions, and
 *                   dimensions of size 1, are repeated.
 *   "n[c],n->n"     Dimensions in brackets are not sharded: a kernel gets all of them.
 *   "m*k,kn->mn"    A letter with an asterisk, in one operand at least, may be cut in any way: a rank's part may be several
 *                   runs of indices (WEFT_CUT_CYCLIC, WEFT_CUT_ZIGZAG), and offset[d] then counts indices as the parts store
 *                   them. For kernels to which it does not matter which indices they get. Tensors that are cut so along
 *                   other letters are redistributed first.
 *   "AbC->A1C"      1 is a dimension of size 1.
 *   "(ab)c->a(bc)"  A dimension of several letters, the first one outermost. It can be sharded along that one.
 *                   If a letter is not a dimension of its own in any input, the call gives its size.
 *   "Ad,A->vd"      A letter that only the output has: each rank computes its own part from whole inputs. The
 *                   call gives its size.
 *   "h~w~->hw"      A dimension of an input that is read with a halo: for one index of the letter the kernel
 *                   reads several indices of the dimension (weft_halo). If the letter is sharded, each rank also
 *                   gets its neighbours' indices. The dimension has its own size, not the letter's. If no input
 *                   has the letter without "~", the call gives the letter's size; by default it is that of the
 *                   first such dimension. Halos may be periodic.
 *   ",n->n"         An operand without dimensions is a scalar.
 *
 * A kernel is called once per panel of the output on each rank. If the output's first letter is in brackets, it is
 * called once per rank. If an input begins with the output's first letter, the kernel gets its rows with the same
 * global indices, or, with a halo, the rows that these read. From other inputs it gets the rank's whole shard. Halos
 * end at the tensor's borders, unless they are periodic or the tensor is ghosted (<weft/ghosts.h>). The kernel finds the
 * borders by offset, extent and shape, and treats them as it likes (zeros, the nearest element, nothing). Parts of
 * outputs are never empty; parts of inputs may be. A letter may have
 * different extents in the operands of one call, so address elements by global index (index - offset[d]). If a kernel
 * accumulates, all inputs that begin with the contracted letter are cut alike. Test kernels with WEFT_PANEL_ROWS=1 on
 * several layouts: that shows most mistakes.
 *
 * Worker threads call kernels concurrently. So a kernel keeps no unlocked state, changes only its outputs, and calls
 * only the functions of <weft/kernel.h>. A kernel for devices (::weft_cuda_kernel) may also call CUDA. */
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
/** Unsigned integers of more than 8 bits: as in PyTorch they have no common type but with floating numbers. */
#define WEFT_TYPES_UNSIGNED (WEFT_TYPE_BIT(WEFT_U16) | WEFT_TYPE_BIT(WEFT_U32) | WEFT_TYPE_BIT(WEFT_U64))
#define WEFT_TYPES_INTEGER                                                                                   \
    (WEFT_TYPES_INDEX | WEFT_TYPE_BIT(WEFT_U8) | WEFT_TYPE_BIT(WEFT_I8) | WEFT_TYPE_BIT(WEFT_I16) | WEFT_TYPES_UNSIGNED)
#define WEFT_TYPES_NUMBER (WEFT_TYPES_FLOAT | WEFT_TYPES_INTEGER)
#define WEFT_TYPES_BOOL WEFT_TYPE_BIT(WEFT_BOOL)
#define WEFT_TYPES_ALL (WEFT_TYPES_NUMBER | WEFT_TYPES_BOOL) /**< all real types */
#define WEFT_TYPES_COMPLEX (WEFT_TYPE_BIT(WEFT_C64) | WEFT_TYPE_BIT(WEFT_C128))
#define WEFT_TYPES_ANY (WEFT_TYPES_ALL | WEFT_TYPES_COMPLEX)
#define WEFT_TYPES_STORED (WEFT_TYPE_BIT(WEFT_F8_E4M3) | WEFT_TYPE_BIT(WEFT_F8_E5M2)) /**< without arithmetic */
/** \} */

/** The type of an operation's output. */
typedef enum weft_output_type {
    WEFT_TYPE_FIRST = 0, /**< the type of input 0 */
    WEFT_TYPE_PROMOTED,  /**< the common type of all inputs, as PyTorch promotes types */
    WEFT_TYPE_FLOATING,  /**< the same, but WEFT_F32 for integers and truth values */
    WEFT_TYPE_SUMMED,    /**< the type of input 0, but WEFT_I64 for integers and truth values */
    WEFT_TYPE_BOOL,      /**< WEFT_BOOL */
    WEFT_TYPE_INDEX,     /**< WEFT_I64: an index */
    WEFT_TYPE_LAST,      /**< the type of the last input */
    WEFT_TYPE_GIVEN,     /**< the type that the call gives */
    WEFT_TYPE_REAL,      /**< the type of input 0, but that of its parts for complex types */
    WEFT_TYPE_COMPLEX    /**< the complex type whose parts have the common type of all inputs; WEFT_C64 for 16 bits */
} weft_output_type;

/** Linearity: whether the operation can take Partial inputs and return a Partial output. */
typedef enum weft_linear_kind {
    WEFT_NOT_LINEAR = 0,
    WEFT_LINEAR_JOINTLY, /**< f(a + a', b + b') = f(a, b) + f(a', b'): all inputs are Partial together (add) */
    WEFT_LINEAR_EACH /**< f(a + a', b) = f(a, b) + f(a', b): one input is Partial, the others are whole (matmul) */
} weft_linear_kind;

typedef struct weft_linearity {
    weft_linear_kind kind;
    unsigned inputs;          /**< for WEFT_LINEAR_EACH: bit i for input i */
    unsigned ops;             /**< bit 1 << op for each ::weft_reduce_op that can pass */
    weft_reduce_op contracts; /**< how the parts of a contracted letter are combined: the output is Partial with this
                                   op */
} weft_linearity;

/** Linear operations commute with sums and averages, monotone ones with minima and maxima. \{ */
#define WEFT_LINEAR_OPS ((1u << WEFT_SUM) | (1u << WEFT_AVG))
#define WEFT_MONOTONE_OPS ((1u << WEFT_MIN) | (1u << WEFT_MAX))
/** \} */

typedef struct weft_operation_input {
    const char *name;   /**< name of the argument, for messages */
    unsigned types;     /**< accepted types, by WEFT_TYPE_BIT() */
    bool type_of_first; /**< the type must also be that of input 0 */
} weft_operation_input;

/** One output. All zero: a new tensor of input 0's type. */
typedef struct weft_operation_output {
    weft_output_type type; /**< type of the output. For an output in place use WEFT_TYPE_FIRST: it has the type of its
                                input */
    weft_linearity linear; /**< if there are several outputs, Partial passes only if all of them allow it */
    /** The output is the input of the same number, changed. It keeps its layout, and has the same term in the rule.
     * List inputs that are changed in place first. */
    bool in_place;
    /** The output does not depend on letters that it lacks: ranks along them compute the same values, not parts. */
    bool repeats;
} weft_operation_output;

#define WEFT_MAX_RANDOM_SCALARS 4 /**< scalars of a call that draws random numbers */
#define WEFT_MAX_HALOS 12 /**< dimensions with "~" in a rule */

/** Which indices of an input's dimension ("~" after its letter) are read for index i of the letter: from (i * times -
 * before) / over, rounded up, to (i * times + after) / over, rounded down, clipped to the tensor. Examples: a stencil
 * of radius 1 has before = after = 1. Pooling by 2 has times = 2, after = 1. To read only the previous row, set
 * before = 1, after = -1. */
typedef struct weft_halo {
    int input;             /**< number of the input */
    char letter;           /**< 0 ends the list */
    int64_t before, after; /**< may be negative */
    int64_t times;         /**< 0 means 1. Negative: larger indices of the letter read smaller indices of the input */
    int64_t over;          /**< 0 means 1 */
    /** The dimension is periodic: indices below 0 and beyond the end are read modulo its size, and not clipped. The kernel
     * sees them as they are: offset[d] may be negative, and offset[d] + extent[d] may be larger than shape[d]. A halo may
     * reach over several ranks' parts, and over the rank's own, but no further than the size beyond each end of the
     * dimension (WEFT_ERR_INVALID). */
    bool periodic;
} weft_halo;

/** Changes a halo for a call with these numbers (weft_apply_options.numbers, WEFT_MAX_NUMBERS of them). weft may call
 * it several times per call. The function must not call weft or keep state: equal numbers must give equal halos on
 * every process. */
typedef void (*weft_halo_function)(weft_halo *halo, const int64_t numbers[]);

/** A registered operation: an opaque handle like ::weft_tensor. A handle from before the last weft_init() is
 * refused. */
typedef struct weft_operation weft_operation;

/** The gradients that a backward pass wants of a call. Valid until the function returns. */
typedef struct weft_gradient_request {
    int num_inputs, num_outputs;
    /** The inputs and outputs, with the values before the call. If weft_operation_description.gradient_reads does not
     * name one, it may have no data (weft_tensor_is_fake()), only a layout. */
    weft_tensor *const *inputs, *const *outputs;
    weft_tensor *const *output_gradients;     /**< of the output's shape and type, in any layout; NULL means zero */
    const bool *wanted;                       /**< one entry per input */
    const struct weft_apply_options *options; /**< options of the call */
} weft_gradient_request;

/** Writes the wanted gradients, computed by calls of weft, so that nothing waits. Each has its input's shape, any
 * floating type, and any layout; NULL means zero. You may leave broadcast dimensions for weft to sum. Returns
 * WEFT_OK, or the status of a failed call. */
typedef weft_status (*weft_operation_gradient)(const weft_gradient_request *request, weft_tensor *gradients[]);

/** Bits of weft_operation_description.gradient_reads. \{ */
#define WEFT_GRADIENT_READS_INPUT(input) (1u << (input))
#define WEFT_GRADIENT_READS_OUTPUT(output) (1u << (16 + (output)))
/** \} */

/** Describes an operation. Zero-initialise it and set the fields you need. weft copies everything. */
typedef struct weft_operation_description {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    const char *name; /**< for messages and traces */
    const char *rule;
    weft_operation_input inputs[WEFT_MAX_KERNEL_INPUTS];    /**< as many as the rule has */
    weft_operation_output outputs[WEFT_MAX_KERNEL_OUTPUTS]; /**< as many as the rule has */
    /** The kernel gets the contracted rows of input 0 in pieces (weft_kernel_call.first, .last): either all of them,
     * or several groups of them. The results of the groups are then reduced like those of ranks. */
    bool accumulates;
    weft_kernel kernel;
    weft_halo halos[WEFT_MAX_HALOS]; /**< one for each "~" of the rule, in any order */
    weft_halo_function halo;         /**< NULL: the halos are the same in every call */
    weft_operation_gradient gradient; /**< NULL: it has no gradient; asking for one is WEFT_ERR_UNSUPPORTED */
    /** The inputs and outputs whose values `gradient` reads, which weft keeps until then: WEFT_GRADIENT_READS_INPUT()
     * | ... */
    unsigned gradient_reads;
    /** The kernel for CUDA devices. NULL: the operation runs on CPUs. You must set
     * `kernel` in any case: it is used by processes without devices, and if a device has no memory for an operand. */
    weft_cuda_kernel cuda;
    /** The kernel draws random numbers (<weft/kernel.h>). Each call advances the current random state by one, and has at
     * most WEFT_MAX_RANDOM_SCALARS scalars. A gradient gets no random numbers: let the kernel write what it needs of
     * them, as weft_dropout() writes its mask. */
    bool random;
    /** The kernels address elements of all views by weft_view.strides, and may read before index 0 and after the last one where
     * a view says so. Then the operation reads and writes ghosted arrays in place (<weft/ghosts.h>). */
    bool takes_strides;
} weft_operation_description;

/** Sets all fields to 0, and `size`. */
static inline void weft_operation_description_init(weft_operation_description *description)
{
    memset(description, 0, sizeof(*description));
    description->size = sizeof(*description);
}

/**
 * Registers an operation, which is valid until weft_finalize(). Every process registers the same operations in the
 * same order.
 *
 * \return NULL on error: WEFT_ERR_INVALID if a field is missing or does not match the rule (the message gives the
 *         position in the rule), WEFT_ERR_STATE before weft_init(), WEFT_ERR_NOMEM.
 */
WEFT_API const weft_operation *weft_operation_register(const weft_operation_description *description);

/**
 * Replaces the rule, the kernel or both of one of weft's operations. From then on every call of the operation uses
 * them, in public functions of any name and in functions that are made of several operations. Gradients do not
 * change. A second replacement replaces the first. Every process makes the same replacements in the same order.
 *
 * \param description  its fields mean:
 *
 *   name       name of the operation (docs/operations.md)
 *   kernel     NULL keeps the kernel. Otherwise this kernel replaces weft's own way to make the operation's
 *              tasks; it is called like that of a registered operation. It gets the same numbers and scalars as
 *              weft's own kernel (src/ops). `accumulates` and `cuda` belong to it
 *   rule       NULL keeps the rule. Otherwise the rule must have as many outputs as the operation, and the sizes
 *              that the public function gives; outputs[].linear and `halos` belong to it. Without a kernel the
 *              rule may only keep more dimensions whole, by brackets; if it describes other dimensions, calls
 *              fail with WEFT_ERR_INVALID. With a kernel, a rule that shards more than the kernel can handle
 *              gives wrong results
 *   gradient   NULL
 *   inputs, outputs[].type, outputs[].in_place, random, takes_strides   ignored: they do not change
 *
 * \return WEFT_OK; WEFT_ERR_INVALID if there is no operation of this name, or the rule does not match it;
 *         WEFT_ERR_STATE, WEFT_ERR_NOMEM.
 */
WEFT_API weft_status weft_operation_replace(const weft_operation_description *description);
/** Restores weft's own rule and kernel. WEFT_ERR_INVALID if there is no operation of this name. */
WEFT_API weft_status weft_operation_restore(const char *name);

/** Arguments of a call besides its tensors. Zero-initialise it and set the fields you need. */
typedef struct weft_apply_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int num_numbers;
    int64_t numbers[WEFT_MAX_NUMBERS]; /**< for the kernel. weft caches layouts for each set of numbers, so pass
                                            values that change between calls as scalars */
    int num_scalars;
    double scalars[WEFT_MAX_SCALARS]; /**< for the kernel */
    int num_sizes;
    /** The sizes of the letters that are not a dimension of their own in any input, in the order in which the rule
     * names them. For "(ab)c->ac" these are a and b; for "Ad,A->vd" v; for "h~w~->hw" h and w, which you may leave
     * out. */
    int64_t sizes[WEFT_MAX_NUMBERS];
    int leading;     /**< number of dimensions of the first run, if an operand has two runs */
    weft_dtype type; /**< type of the output, for WEFT_TYPE_GIVEN */
    /** Passed to the kernel as weft_kernel_call.context, and to the gradient with these options. For tables and
     * parameters that are no numbers; kernels must not change it. Equal contexts must mean equal outputs, on every
     * process: processes compare no more of it than its size. A captured graph (<weft/graph.h>) compares the pointer,
     * or the copied bytes, and captures a call with another context again; a frozen one repeats the context that it has
     * captured. */
    void *context;
    size_t context_size; /**< > 0: this many bytes (at most 2^20) are copied before the call returns. 0: the pointer
                              is passed on, and its target must stay valid until weft_wait() has returned; if there is
                              a gradient, until that has run or the outputs are released; in a captured graph, until
                              the graph is destroyed */
} weft_apply_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_apply_options_init(weft_apply_options *options)
{
    const weft_apply_options all = { sizeof(all), 0, { 0 }, 0, { 0 }, 0, { 0 }, 0, WEFT_F64, NULL, 0 };
    *options = all;
}

/**
 * Calls an operation that has one output.
 *
 * \param tensors  as many as the rule has inputs, all on one mesh
 * \param options  NULL: none
 * \return a new tensor; if the operation works in place, the first tensor. NULL on error, as weft's own operations
 *         (WEFT_ERR_INVALID, WEFT_ERR_SHAPE, WEFT_ERR_DTYPE, WEFT_ERR_LAYOUT, WEFT_ERR_MESH).
 */
WEFT_API weft_tensor *weft_apply(const weft_operation *operation, int num_tensors,
                                 weft_tensor *const tensors[], const weft_apply_options *options);

/**
 * Calls an operation that has any number of outputs.
 *
 * \param num_outputs  as many as the rule has
 * \param outputs      receive new tensors, or the inputs that are changed in place; all NULL on error
 * \return as weft_apply(). WEFT_ERR_INVALID if two inputs that are changed are the same tensor.
 *
 * For example, an operation with two inputs and two outputs:
 *
 *     weft_apply_all(operation, 2, (weft_tensor *[]){ a, b }, NULL, 2, outputs);
 */
WEFT_API weft_status weft_apply_all(const weft_operation *operation, int num_tensors,
                                    weft_tensor *const tensors[], const weft_apply_options *options,
                                    int num_outputs, weft_tensor *outputs[]);

WEFT_END_DECLS

#endif
