/** \file
 * Explain calls: the chosen layouts and why, redistributions, tasks, and the predicted time of the calls between
 * weft_explain_begin() and weft_explain_end(). With tensors without data (weft_fake()) calls are explained and
 * nothing is executed.
 *
 *     weft_explain_begin();
 *     weft_matmul(weft_fake_like(a), weft_fake_like(b));
 *     weft_explain_end();
 *     weft_explain(stdout);
 *
 * To explain calls in worlds of any size without a program, use weft-plan --op. */
#ifndef WEFT_EXPLAIN_H
#define WEFT_EXPLAIN_H

#include <stdio.h>

#include <weft/base.h>

WEFT_BEGIN_DECLS

/** Start and stop explaining calls. weft_explain_begin() drops earlier explanations. Local: other processes need not
 * do the same. Explained calls take longer, because each searches for its layouts again. WEFT_ERR_STATE before
 * weft_init(), for a second weft_explain_begin(), and for weft_explain_end() without a begin; WEFT_ERR_NOMEM. \{ */
WEFT_API weft_status weft_explain_begin(void);
WEFT_API weft_status weft_explain_end(void);
/** \} */

/**
 * Prints the explanations since the last weft_explain_begin(), one for each call of a public function:
 *
 *     weft_matmul(f32[64, 32] [S0] on 4, f32[32, 16] [S0] on 4)
 *       matmul  mk,kn->mn
 *         4 combinations of strategies possible, 0 not
 *           predicted us  moved        work  shards   inputs -> outputs
 *         *         37.5      1       8192  m        S0           R            -> S0
 *         ...
 *         chosen (*): least predicted cost: 37.5 us, the next one 42.1 us
 *         a  f32[64, 32] [S0] on 4
 *             as it is
 *         b  f32[32, 16] [S0] on 4
 *             to f32[32, 16] [R] on 4: direct, 1 stage
 *             6144 bytes in all, at most 1536 into a rank; at most 3 messages of a rank; 37.5 us predicted
 *         output  f32[64, 16] [S0] on 4
 *         tasks of this process: 4 (4 matmul) on 20480 bytes
 *         predicted: 37.5 us of transfers, 13.1 us of tasks
 *
 * If a call is made of several operations, each has a part, and each redistribution between them has a line. Bytes
 * and messages count the traffic between ranks; tasks are those of this process. Times are estimates from the
 * machine's figures (weft_print_machine()), without other load. WEFT_ERR_INVALID if `file` is NULL; WEFT_ERR_STATE
 * without an earlier weft_explain_begin(); WEFT_ERR_IO.
 */
WEFT_API weft_status weft_explain(FILE *file);

WEFT_END_DECLS

#endif
