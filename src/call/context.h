/* src/call: public calls as values, their context, and interposers.
 *
 * The context of a call (weft_context) is ambient: bodies of composites, gradients and hooks call weft_add(a, b), and pass nothing
 * on. Code that changes it enters a context, and leaves it on every way out:
 *
 *     const weft_context outer = weft_context_enter(weft_context_undeferred());
 *     ...
 *     weft_context_leave(outer);
 */
#ifndef WEFT_SRC_CALL_CONTEXT_H
#define WEFT_SRC_CALL_CONTEXT_H

#include "runtime/runtime.h"

/* The context before it. */
static inline weft_context weft_context_enter(weft_context inner)
{
    const weft_context outer = weft_runtime.context;
    weft_runtime.context = inner;
    return outer;
}

static inline void weft_context_leave(weft_context outer)
{
    weft_runtime.context = outer;
}

/* Whether nothing of the library is around the program. */
static inline bool weft_context_is_outermost(void)
{
    const weft_context *now = &weft_runtime.context;
    return now->in_program == 0 && now->depth == 0 && now->expanded == 0 && now->steps == NULL && now->deferral == NULL &&
           now->rehearsal == NULL;
}

/* ---- contexts within the present one -------------------------------------------------------------------- */

/* In a call that interposers have seen. */
static inline weft_context weft_context_within_call(void)
{
    weft_context inner = weft_runtime.context;
    inner.depth++;
    return inner;
}

/* In a call that nobody has made: it is seen, counted and explained by none. */
static inline weft_context weft_context_unobserved(void)
{
    weft_context inner = weft_context_within_call();
    inner.unobserved = true;
    return inner;
}

/* While an expansion runs. */
static inline weft_context weft_context_expanded(void)
{
    weft_context inner = weft_runtime.context;
    inner.expanded++;
    return inner;
}

/* In a function of the program's. */
static inline weft_context weft_context_in_program(void)
{
    weft_context inner = weft_runtime.context;
    inner.in_program++;
    return inner;
}

/* Calls are deferred. */
static inline weft_context weft_context_deferred(struct weft_deferral *deferral)
{
    weft_context inner = weft_runtime.context;
    inner.deferral = deferral;
    return inner;
}

static inline weft_context weft_context_undeferred(void)
{
    return weft_context_deferred(NULL);
}

/* In a call that has its number. */
static inline weft_context weft_context_numbered(void)
{
    weft_context inner = weft_runtime.context;
    inner.numbered = true;
    return inner;
}

/* Calls are collected. */
static inline weft_context weft_context_collecting(struct weft_steps *steps)
{
    weft_context inner = weft_runtime.context;
    inner.steps = steps;
    return inner;
}

/* Tasks and transfers are not submitted. */
static inline weft_context weft_context_rehearsed(struct weft_rehearsal *rehearsal)
{
    weft_context inner = weft_runtime.context;
    inner.rehearsal = rehearsal;
    return inner;
}

/* The output of an elementwise call may take the memory of this tensor; NULL: of none. */
static inline weft_context weft_context_with_dying(struct weft_tensor_impl *dying)
{
    weft_context inner = weft_runtime.context;
    inner.dying = dying;
    return inner;
}

#endif
