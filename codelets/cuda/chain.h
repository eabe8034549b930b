/* Several kernels of one task, one after the other, on a device. Elementwise ones that follow each other are a chain:
 * one launch, whose threads compute all of them for an element before they go on to the next one. Values between its
 * kernels stay in registers, or local memory; those that nothing after the chain reads are not stored. The same kernel on one tensor
 * after the other is one launch too, as steps of optimisers are (steps.cuh).
 *
 * The kernels compute what they compute one by one, with the same conversions between their types: the same bits. */
#ifndef WEFT_CODELETS_CUDA_CHAIN_H
#define WEFT_CODELETS_CUDA_CHAIN_H

#include "codelets/cuda/kernels.h"

WEFT_BEGIN_DECLS

typedef struct weft_cuda_steps {
    int count;
    const weft_task_run *runs; /* in order; addresses are the device's */
    /* A part of memory whose values nothing reads after the last kernel. */
    char *scratch;
    int64_t scratch_bytes;
} weft_cuda_steps;

/* Launches all kernels on the queue's stream. found[i]: the error that kernel i may find, to be read after the stream's work;
 * NULL: none. Up to WEFT_CUDA_TASK_ERRORS of the kernels may be others than elementwise ones. A weft_cuda_run's result. */
int weft_cuda_launch_steps(const weft_cuda_steps *steps, weft_cuda_queue *queue, weft_device_error *found[]);
/* Whether a launch reads or writes the scratch memory. If not, there need not be any at its address. */
bool weft_cuda_steps_use_scratch(const weft_cuda_steps *steps);

/* ---- one kernel on several tensors ------------------------------------------------------------------------ */

enum { WEFT_CHAIN_INPUTS = 3, WEFT_ALIKE_MOST = 64, WEFT_ALIKE_MEMORIES = 1 + WEFT_CHAIN_INPUTS };

/* The operands of one: the output, then the inputs. */
typedef struct weft_alike_set {
    void *memories[WEFT_ALIKE_MEMORIES];
    int64_t elements;
} weft_alike_set;

/* Elementwise kernels that differ in their operands alone, each of which lies in one piece of memory, or is one element for all. */
typedef struct weft_alike {
    weft_kernel_id kernel;
    int num_memories;
    int step[WEFT_ALIKE_MEMORIES]; /* 0: one element */
    weft_dtype arithmetic, common, types[WEFT_ALIKE_MEMORIES];
    unsigned converted; /* of weft_elementwise_args */
    double scalars[WEFT_MAX_SCALARS];
    int count;
    weft_alike_set of[WEFT_ALIKE_MOST];
} weft_alike;

/* As many runs as are alike, from the first of `count` on; 0: the first does not lie in one piece. (alike.c) */
int weft_alike_find(const weft_task_run runs[], int count, weft_alike *alike);
/* One launch; a weft_cuda_run's result (chain_run.cu). */
int weft_alike_launch(const weft_alike *alike, weft_cuda_queue *queue);

/* ---- a chain: the argument of its launch ----------------------------------------------------------------- */

enum { WEFT_CHAIN_STEPS = 24, WEFT_CHAIN_MEMORIES = 16 };

typedef struct weft_chain_step {
    uint16_t kernel;
    uint8_t num_inputs;
    uint8_t arithmetic, common, converted; /* of weft_elementwise_args */
    uint8_t types[1 + WEFT_CHAIN_INPUTS];  /* the output's first */
    int8_t inputs[WEFT_CHAIN_INPUTS];      /* number of a memory; -1 - n: the value of step n */
    int8_t output;                         /* number of a memory; -1: the value is not stored */
} weft_chain_step;

typedef struct weft_chain {
    int num_steps, num_memories;
    /* The index box of all steps, as weft_device_box: neighbours merged that are contiguous in all memories. */
    int ndim;
    int64_t count, extent[WEFT_MAX_DIMS], stride[WEFT_CHAIN_MEMORIES][WEFT_MAX_DIMS];
    void *memories[WEFT_CHAIN_MEMORIES];
    uint8_t types[WEFT_CHAIN_MEMORIES]; /* of a memory's elements */
    weft_chain_step steps[WEFT_CHAIN_STEPS];
    double scalars[WEFT_CHAIN_STEPS][WEFT_MAX_SCALARS];
} weft_chain;

/* The chain that begins with an elementwise kernel: of as many as can be one launch, chain->num_steps. */
void weft_chain_find(const weft_cuda_steps *steps, int first, weft_chain *chain);
/* Launches it; a weft_cuda_run's result (chain_run.cu). */
int weft_chain_launch(const weft_chain *chain, weft_cuda_queue *queue);

WEFT_END_DECLS

#endif
