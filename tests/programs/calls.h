/* The table of calls: a row for each public function that makes or changes tensors, in calls_*.c by
 * family. */
#ifndef WEFT_TESTS_CALLS_H
#define WEFT_TESTS_CALLS_H

#include "dims.h"
#include "evaluate.h"
#include "program.h"

/* Arguments of a call: the names that a row's text may use. */
typedef struct call_arguments {
    weft_tensor *const *in;
    weft_tensor **out;
    const int64_t *whole;
    const double *real;
    weft_dtype dtype;
    int ndim;
    const int64_t *shape;
    const int *dims; /* shape as dimensions */
    weft_mesh *mesh;
    const weft_placement *placements;
    void *const *locals; /* values that the program gives: of the hosted ranks, and all */
    const void *global;
    bool *truth; /* an answer, and a number */
    double *number;
} call_arguments;

typedef struct maker maker;

/* Flags of an operation, for the generator and the runner. */
enum {
    CHECKS = 1 << 0, /* no call of weft's: input 0 is compared here and now */
    WRITES = 1 << 1, /* no call of weft's: the program writes to the shards of input 0 */
    GIVES = 1 << 2,  /* takes values of the program: `locals` or `global` */
    LENDS = 1 << 3,  /* and lends its memory */
    OPENS = 1 << 4,  /* a scope; the reverse */
    CLOSES = 1 << 5,
    KEEPS = 1 << 6,   /* input 0, beyond its scope */
    RETAINS = 1 << 7, /* one more reference to input 0; one less */
    RELEASES = 1 << 8,
    MAY_BE_SAME = 1 << 9,     /* the result may be input 0 itself: writing to one shows in the other */
    MAY_BE_PARTIAL = 1 << 10, /* the result may be, where no input is */
    ANSWERS = 1 << 11,        /* sets *truth */
    COUNTS = 1 << 12,         /* sets *number */
    MOVES = 1 << 13,          /* elements alone: inexact ones too */
    IN_PLACE = 1 << 14,       /* outputs are inputs; those without are new */
    NOT_CHOSEN = 1 << 15,     /* by the generator: it is made where others need it */
    ANY_MESHES = 1 << 17,     /* inputs are on several; a new output on that of input 0 */
    BLOCKS = 1 << 18,         /* waits for submitted tasks */
    PUSHES = 1 << 19,         /* the step's mesh, to the stack of meshes; the reverse */
    POPS = 1 << 20,
    HERE = 1 << 21,            /* on the mesh that is on top of the stack, which the step has too */
    HOLDS = 1 << 22,           /* no call of weft's: the program acquires the shards of input 0 to read */
    FETCHES_SCALARS = 1 << 16, /* tensors of one element may be on other meshes */
    OF_GRADIENTS = 1 << 23,    /* for programs with gradients alone */
    LEAVES = 1 << 24,          /* input 0 becomes a leaf */
    CUTS = 1 << 25,            /* the result is a constant */
    OF_LEAVES = 1 << 29,       /* input 0 is a leaf; of a row with details, also computed from leaves */
    NO_GRAD_BEGINS = 1 << 26,
    NO_GRAD_ENDS = 1 << 27,
    DIFFERENTIATES = 1 << 28, /* input 0, a loss; outputs are gradients by inputs 1 and above */
};

struct operation {
    const char *name;
    void (*call)(const call_arguments *arguments);
    const char *text; /* of the call, as C: how print.c prints it */
    /* Chooses inputs and attributes, and makes inputs that are not there. False: it cannot be now. */
    bool (*make)(maker *m, step *s);
    /* The outputs from the inputs. False: the call is not valid for these. */
    bool (*reference)(scene *s);
    const void *details; /* for the family's functions */
    int flags;
    int weight; /* how often it is chosen; 0 stands for 4 */
};

/* All rows; false after the last. */
bool operation_at(int i, const operation **found);
const operation *operation_find(const char *name);
int operation_index(const operation *wanted);
int operation_count(void);
/* A step of an optimiser. */
bool operation_steps(const operation *row);

/* The tables of the families; each ends with a row without a name. */
extern const operation complex_calls[], tensor_calls[], scope_calls[], elementwise_calls[], number_calls[], special_calls[], combined_calls[],
    reduction_calls[], shape_calls[], part_calls[], around_calls[], join_calls[], indexing_calls[], statistics_calls[], scatter_calls[], selection_calls[], sorting_calls[],
    product_calls[], convolution_calls[], image_calls[], attention_calls[], softmax_calls[], norm_calls[], normalize_calls[], loss_calls[], element_loss_calls[],
    random_calls[], optimizer_calls[], gradient_calls[];

/* ---- how rows are written ------------------------------------------------------------------------------ */

/* The function that a row calls, and its text. */
#define CALLS(name_, ...)                                                                                    \
    static void call_##name_(const call_arguments *arguments_)                                               \
    {                                                                                                        \
        weft_tensor *const *in = arguments_->in;                                                             \
        weft_tensor **out = arguments_->out;                                                                 \
        const int64_t *whole = arguments_->whole, *shape = arguments_->shape;                                \
        const double *real = arguments_->real;                                                               \
        const weft_dtype dtype = arguments_->dtype;                                                          \
        const int ndim = arguments_->ndim, *dims = arguments_->dims;                                         \
        weft_mesh *mesh = arguments_->mesh;                                                                  \
        const weft_placement *placements = arguments_->placements;                                           \
        void *const *locals = arguments_->locals;                                                            \
        const void *global = arguments_->global;                                                             \
        bool *truth = arguments_->truth;                                                                     \
        double *number = arguments_->number;                                                                 \
        (void)in, (void)out, (void)whole, (void)shape, (void)real, (void)dtype, (void)ndim, (void)dims;      \
        (void)mesh, (void)placements, (void)locals, (void)global, (void)truth, (void)number;                 \
        __VA_ARGS__;                                                                                         \
    }                                                                                                        \
    static const char text_##name_[] = #__VA_ARGS__;
#define ROW(name_, make_, reference_, ...)                                                                   \
    {                                                                                                        \
        .name = #name_, .call = call_##name_, .text = text_##name_, .make = make_, .reference = reference_,  \
        __VA_ARGS__                                                                                          \
    }

#endif
