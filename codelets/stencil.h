/* Elementwise kernels on tensors that are read at shifted indices, with constants where there are none: the calls of a stencil in
 * one pass (src/graph/passes/pass_stencil.c). */
#ifndef WEFT_CODELETS_STENCIL_H
#define WEFT_CODELETS_STENCIL_H

#include "codelets/elementwise.h"

enum { WEFT_STENCIL_VIEWS = 32, WEFT_STENCIL_STEPS = 32, WEFT_STENCIL_SEGMENTS = 6, WEFT_STENCIL_SOURCES = 7, WEFT_STENCIL_CONSTANTS = 8 };

/* `count` consecutive indices of a view's dimension: those of the source from `first` on, or (constant >= 0) a constant. An element
 * that has several constants is that of the least level: the one that the program put around it last. */
typedef struct weft_stencil_segment {
    int64_t count, first;
    int32_t constant, level;
} weft_stencil_segment;

/* A tensor of the output's shape, made of the elements of a source by shifts, cuts and constants around it. One without dimensions
 * is repeated. */
typedef struct weft_stencil_view {
    int32_t source; /* which of the sources */
    int32_t ndim;   /* the output's, or 0 */
    int32_t num_segments[WEFT_MAX_DIMS];
    weft_stencil_segment segments[WEFT_MAX_DIMS][WEFT_STENCIL_SEGMENTS]; /* by dimension; they cover it in order */
} weft_stencil_view;

typedef struct weft_stencil_constant {
    double value, rest; /* see weft_constant_args */
} weft_stencil_constant;

/* The kernel of an elementwise call. */
typedef struct weft_stencil_step {
    weft_kernel_id kernel;
    int32_t source; /* the recorded call that its scalars come from */
    int32_t num_inputs;
    int32_t operands[WEFT_MAX_ELEMENTWISE_INPUTS]; /* a view; or -1 - the number of a slot */
    int32_t slot;                                  /* that it writes to; -1: the output */
    const char *function;                          /* for messages: static storage */
    weft_elementwise_args args;                    /* without extents and strides */
    double scalars[WEFT_MAX_SCALARS];
} weft_stencil_step;

/* The context of a call. The kernel's inputs are parts of sources, maybe several of one: a view's box is read from the first one that
 * has it. Tiles of all slots, which are values between the steps, are in the caches. */
typedef struct weft_stencil {
    int32_t num_inputs, num_views, num_steps, num_slots;
    int32_t source_of[WEFT_MAX_KERNEL_INPUTS]; /* by input */
    int64_t slot_element;                      /* bytes of the largest element of a slot */
    weft_stencil_constant constants[WEFT_STENCIL_CONSTANTS];
    weft_dtype types[WEFT_STENCIL_SOURCES]; /* by source */
    int64_t views_at, bytes;                /* from the beginning; of all */
    int32_t num_calls;                      /* that became this one */
    weft_stencil_step steps[];              /* then the views */
} weft_stencil;

static inline const weft_stencil_view *weft_stencil_views(const weft_stencil *s)
{
    return (const void *)((const char *)s + s->views_at);
}

/* call->context: a weft_stencil. One output. */
void weft_kernel_stencil(const weft_kernel_call *call);

#endif
