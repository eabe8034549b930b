/** \file
 * Prediction: how long a run of a captured graph takes, by a simulation of its tasks and messages, on this machine or on
 * one that is described by a file, on as many processes as wanted. Nothing of the world changes.
 *
 *     weft_graph_call(graph, inputs, scalars, outputs);      // captures
 *     weft_prediction found;
 *     weft_graph_predict(graph, NULL, &found);
 *     printf("%.1f ms, %.0f %% of it waiting for messages\n", found.step_us * 1e-3, 100 * found.exposed);
 *
 * In a fake world (WEFT_WORLD_FAKE) any number of ranks can be predicted on one machine: weft-predict does that. */
#ifndef WEFT_PREDICT_H
#define WEFT_PREDICT_H

#include <weft/base.h>
#include <weft/graph.h>

WEFT_BEGIN_DECLS

/** Zero-initialise (WEFT_PREDICT_DEFAULT) and set what matters. */
typedef struct weft_predict_options {
    const char *machine; /**< a file of figures (docs/machine.md), whose rates give the times of kernels. NULL: the
                              file that WEFT_MACHINE names, or else this machine: each kernel is timed once */
    int processes; /**< that the ranks are spread over; 0: as in this world (fake: WEFT_FAKE_PROCESSES). Layouts that
                        follow from the costs of messages may differ in another number: WEFT_ERR_STATE then */
    int hosts;     /**< that the processes are spread over, as evenly as can be; 0: one process on each in a fake world, else
                        as in this world */
    int workers;   /**< of each process; 0: as in the machine's file, else as here */
    int cores;     /**< of each process: the submitting thread and messages delay tasks where there are no more than
                        workers; 0: as in the machine's file, else as many as workers */
    int sharing;   /**< processes that share each core, as on one machine that stands for several: kernels take so many times
                        as long; 0: 1 */
    bool timed;    /**< kernels are timed here, also where a file has rates */
    int runs;      /**< that follow each other without a wait; 0: 1 */
    const char *timeline; /**< a file that is written: docs/profiling.md draws it; NULL: none */
    size_t size;   /**< 0, or sizeof of this struct */
} weft_predict_options;

#define WEFT_PREDICT_DEFAULT                                                                                 \
    {                                                                                                        \
        NULL, 0, 0, 0, 0, 0, false, 0, NULL, 0                                                               \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_predict_options_init(weft_predict_options *options)
{
    const weft_predict_options all = WEFT_PREDICT_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

#define WEFT_PREDICTION_TEXT 2048

/** Fractions are of the time of all runs, means over the processes that were simulated. */
typedef struct weft_prediction {
    double step_us;       /**< from the call to the end of its last task: one run; of several, each after the first */
    double computing;     /**< a worker runs a task */
    double communicating; /**< a message to or from the process is under way */
    double exposed;       /**< a message is under way, and no worker computes */
    double idle;          /**< neither */
    double busy;          /**< of the workers' time */
    uint64_t tasks, messages; /**< of one run on the process that has most */
    int64_t bytes;            /**< received in one run by the process that receives most */
    int64_t peak_bytes;       /**< of tensors' memory, on the process that needs most */
    int processes;            /**< of the world that is predicted */
    int simulated;            /**< of these; the others do as one of them does */
    uint64_t assumed;         /**< messages whose other side was assumed, not simulated */
    double took_us;           /**< the prediction itself */
    char critical_path[WEFT_PREDICTION_TEXT]; /**< lines: the chain of tasks and messages that decides about the time, by
                                                   operation, the longest first */
} weft_prediction;

/** Predicts the newest run of a graph. BLOCKS until all submitted tasks of this process have ended, for the time of about one
 * run on each process that is simulated; other processes need not call it. Up to 16 processes are all simulated; of more,
 * one of each class of processes that have shards of the same sizes, and a message's other side does as its class does.
 * `options` may be NULL. Values of tensors, random numbers and counters stay as they are.
 *
 * \return WEFT_ERR_STATE: the graph has not run, or its function is running, or the program holds shards
 *         (weft_local_acquire()); WEFT_ERR_INVALID: an option; WEFT_ERR_IO: a file; WEFT_ERR_NOMEM. */
WEFT_API weft_status weft_graph_predict(weft_graph *graph, const weft_predict_options *options,
                                        weft_prediction *prediction, size_t size);

WEFT_END_DECLS

#endif
