/** \file
 * Prediction: how long a run of a captured graph takes. weft simulates its tasks and messages, on this machine or on
 * one that a file describes, on as many processes as you want. Nothing of the world changes.
 *
 *     weft_graph_call(graph, inputs, scalars, outputs);      // captures
 *     weft_prediction found;
 *     weft_graph_predict(graph, NULL, &found, sizeof(found));
 *     printf("%.1f ms, %.0f %% of it waiting for messages\n", found.step_us * 1e-3, 100 * found.exposed);
 *
 * In a fake world (WEFT_WORLD_FAKE) you can predict any number of ranks on one machine: weft-predict does that. */
#ifndef WEFT_PREDICT_H
#define WEFT_PREDICT_H

#include <weft/base.h>
#include <weft/graph.h>

WEFT_BEGIN_DECLS

/** Zero-initialise it (WEFT_PREDICT_DEFAULT) and set the fields you need. */
typedef struct weft_predict_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    const char *machine; /**< a file of figures (docs/machine.md), whose rates give the times of kernels. NULL: the
                              file that WEFT_MACHINE names, otherwise this machine: each kernel is timed once */
    int processes; /**< number of processes that the ranks are spread over; 0: as in this world (fake:
                        WEFT_FAKE_PROCESSES). With another number, layouts that follow from the costs of messages may
                        differ; then the status is WEFT_ERR_STATE */
    int hosts;     /**< number of hosts that the processes are spread over, as evenly as possible; 0: in a fake world
                        one process on each, otherwise as in this world */
    int workers;   /**< workers of each process; 0: as in the machine's file, otherwise as here */
    int cores;     /**< cores of each process. If there are no more cores than workers, the submitting thread and
                        messages delay tasks. 0: as in the machine's file, otherwise as many as workers */
    int sharing;   /**< number of processes that share each core, as when one machine stands for several: kernels take
                        that many times as long; 0 means 1 */
    bool timed;    /**< time kernels here, even if a file has rates */
    int runs;      /**< number of runs, one after another without a wait; 0 means 1 */
    const char *timeline; /**< a file to write, which docs/profiling.md explains how to draw; NULL: none */
} weft_predict_options;

#define WEFT_PREDICT_DEFAULT                                                                                 \
    {                                                                                                        \
        0, NULL, 0, 0, 0, 0, 0, false, 0, NULL                                                               \
    }

/** Sets all fields to 0, and `size`. */
static inline void weft_predict_options_init(weft_predict_options *options)
{
    const weft_predict_options all = WEFT_PREDICT_DEFAULT;
    *options = all;
    options->size = sizeof(*options);
}

#define WEFT_PREDICTION_TEXT 2048

/** The result. Fractions are of the time of all runs, averaged over the processes that were simulated. */
typedef struct weft_prediction {
    double step_us;       /**< time of one run, from the call to the end of its last task; with several runs, of each
                               after the first */
    double computing;     /**< fraction in which a worker runs a task */
    double communicating; /**< fraction in which a message to or from the process is under way */
    double exposed;       /**< fraction in which a message is under way and no worker computes */
    double idle;          /**< fraction with neither */
    double busy;          /**< fraction of the workers' time in which they compute */
    uint64_t tasks, messages; /**< of one run, on the process that has most */
    int64_t bytes;            /**< received in one run, by the process that receives most */
    int64_t peak_bytes;       /**< memory of tensors, on the process that needs most */
    int processes;            /**< processes of the predicted world */
    int simulated;            /**< how many of these were simulated; each of the others behaves like one of them */
    uint64_t assumed;         /**< messages whose other side was assumed, not simulated */
    double took_us;           /**< time of the prediction itself */
    char critical_path[WEFT_PREDICTION_TEXT]; /**< lines of text: the chain of tasks and messages that determines the
                                                   time, by operation, the longest first */
} weft_prediction;

/** Predicts the newest run of a graph. BLOCKS until all submitted tasks of this process have ended, and then for about
 * the time of one run on each simulated process. Other processes need not call it. Up to 16 processes are all
 * simulated. If there are more, processes whose shards have the same sizes form a class, and one of each class is
 * simulated; the other side of a message behaves like its class. `options` may be NULL. Values of tensors, random
 * numbers and counters do not change.
 *
 * \param size  sizeof(*prediction)
 * \return WEFT_ERR_STATE if the graph has not run, its function is running, or the program has acquired shards
 *         (weft_local_acquire()); WEFT_ERR_INVALID for an option; WEFT_ERR_IO for a file; WEFT_ERR_NOMEM. */
WEFT_API weft_status weft_graph_predict(weft_graph *graph, const weft_predict_options *options,
                                        weft_prediction *prediction, size_t size);

WEFT_END_DECLS

#endif
