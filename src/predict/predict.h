/* src/predict: how long a run of a captured graph would take.
 *
 *   classes     processes whose shards have the same sizes: one of each is looked at (classes.c)
 *   rehearsing  the graph's calls are executed as if this process were that one, on tensors made for it; tasks and
 *               messages are recorded instead of submitted (rehearse.c, tensor/rehearsal.h)
 *   costs       of each task: by timing its kernel once on that memory (kernels.c), or by a machine's rates (rates.c)
 *   simulating  the recordings become a simulation (assemble.c, src/simulate)
 *   writing     the timeline and the critical path (write.c) */
#ifndef WEFT_SRC_PREDICT_H
#define WEFT_SRC_PREDICT_H

#include <weft/predict.h>

#include "graph/run/graph.h"
#include "machine/model.h"
#include "simulate/simulate.h"
#include "tensor/rehearsal.h"

/* ---- costs (kernels.c, rates.c) ---------------------------------------------------------------------------- */

enum { WEFT_COST_SAMPLES = 7 };

/* The time of a kernel with arguments of one footprint. */
typedef struct weft_kernel_cost {
    weft_kernel_id kernel;
    uint32_t footprint;
    int num_samples;
    double samples[WEFT_COST_SAMPLES];
} weft_kernel_cost;

typedef struct weft_kernel_costs {
    const weft_machine_model *rates; /* NULL: kernels are timed */
    weft_vec all;                    /* weft_kernel_cost */
    weft_map index;                  /* 1 + number in `all` */
} weft_kernel_costs;

/* Time that this thread has had a core. */
double weft_processor_us(void);
void weft_kernel_costs_free(weft_kernel_costs *costs);
/* The number of a task's cost, which is found where it is not known well enough. -1: no memory. */
int64_t weft_kernel_cost_of(weft_kernel_costs *costs, const weft_submitted_run *run, struct starpu_task *starpu);
double weft_kernel_cost_us(const weft_kernel_costs *costs, int64_t number);
/* By rates: microseconds of a kernel on one worker. */
double weft_rated_us(const weft_machine_model *rates, weft_kernel_id kernel, const void *arguments, int num_operands);

/* ---- recordings (rehearse.c) ------------------------------------------------------------------------------- */

typedef struct weft_recorded_message {
    int32_t peer;
    uint32_t tag;
    uint64_t exchange; /* number of the redistribution in the run */
    int64_t bytes;
} weft_recorded_message;

/* A record of one run; WEFT_SIMULATED_WAIT: the end of a segment. */
typedef struct weft_recorded {
    weft_simulated_kind kind;
    int64_t cost;
    int priority;
    uint32_t label, family;
    uint32_t first_access, num_accesses, first_message, num_messages;
} weft_recorded;

/* Tasks and messages of one process in a run. */
typedef struct weft_recording {
    int process;
    weft_vec records;  /* weft_recorded */
    weft_vec accesses; /* weft_simulated_access */
    weft_vec messages; /* weft_recorded_message */
    uint64_t tasks;
    int64_t bytes;      /* received */
    int64_t peak_bytes;
    double call_us;     /* of the submitting thread, without submissions */
} weft_recording;

/* The world that is predicted. */
typedef struct weft_predicted_world {
    int processes, hosts, workers, cores, sharing, runs;
    int *first_rank_of; /* processes + 1 entries */
    weft_topology topology;
    weft_cost_model cost;
    weft_message_sizes messages;
    weft_machine_model model;
} weft_predicted_world;

static inline int weft_host_of(const weft_predicted_world *world, int process)
{
    return (int)((int64_t)process * world->hosts / world->processes);
}

/* Records the newest run of a graph as one process would execute it; labels are the simulation's. A status with the error
 * kept. */
weft_status weft_rehearse(const weft_graph_impl *graph, const weft_predicted_world *world, int process,
                          weft_kernel_costs *costs, weft_simulation *simulation, weft_recording *recording);
void weft_recording_free(weft_recording *recording);

/* ---- classes (classes.c) ----------------------------------------------------------------------------------- */

enum { WEFT_ALL_SIMULATED = 16 }; /* of so many processes */

typedef struct weft_process_classes {
    int *class_of; /* by process */
    int *first;    /* a process of each class */
    int count;
} weft_process_classes;

/* False: no memory. */
bool weft_process_classes_find(const weft_graph_impl *graph, const weft_predicted_world *world,
                               weft_process_classes *classes);
void weft_process_classes_free(weft_process_classes *classes);

/* ---- simulation (assemble.c) and results (write.c) --------------------------------------------------------- */

/* Adds the processes of all classes with all runs. */
void weft_predict_assemble(const weft_predicted_world *world, const weft_process_classes *classes,
                           const weft_recording recordings[], const weft_kernel_costs *costs,
                           weft_simulation *simulation);
/* The critical path in words. False: no memory. */
bool weft_predict_path(const weft_simulation *simulation, char *text, size_t size);
/* A status with the error kept. */
weft_status weft_predict_timeline(const weft_simulation *simulation, const weft_process_classes *classes,
                                  const char *path);

/* ---- WEFT_PREDICT (hook.c) --------------------------------------------------------------------------------- */

/* Whether the variable, where it is set, can be understood: WEFT_ERR_INVALID with the error kept. Before a world starts. */
weft_status weft_predict_check(const char *function);
/* Has graphs predicted when they have run, if the variable is set. */
void weft_predict_start(void);

#endif
