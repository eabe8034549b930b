/* What a machine can do: the figures that costs, panel heights and messages are chosen by. Measured once per
 * machine (runtime/calibrate.c, comm/calibrate.c), kept in a small text file, the same on every process of a
 * world. PURE. */
#ifndef WEFT_SRC_PLAN_MACHINE_H
#define WEFT_SRC_PLAN_MACHINE_H

#include <stdio.h>

#include "plan/plan.h"

/* Between two processes. bytes_per_us 0: not known. */
typedef struct weft_link {
    double latency_us;   /* of a small message, one way */
    double message_us;   /* what a message costs beside its bytes */
    double bytes_per_us; /* of a stream of messages, one way */
} weft_link;

typedef struct weft_machine {
    double task_us;              /* a StarPU task that does nothing: submitted and executed */
    double copy_bytes_per_us;    /* of one worker, in memory that no cache holds */
    double product_flops_per_us; /* of one worker: matrix product in single precision */
    weft_link near, far;         /* between two processes of one machine; of two machines */
} weft_machine;

/* Not measured: what plans of worlds without a machine, and WEFT_CALIBRATE=off, take. */
#define WEFT_MACHINE_DEFAULT                                                                                 \
    {                                                                                                        \
        2.0, 5000.0, 20000.0, { 30.0, 3.0, 118.0 },                                                          \
        {                                                                                                    \
            30.0, 3.0, 118.0                                                                                 \
        }                                                                                                    \
    }

bool weft_link_known(const weft_link *link);
/* Every figure as the nearest power of two: measuring again nearly always gives the same ones, and so the
 * same panels, plans and orders of sums. */
weft_machine weft_machine_rounded(const weft_machine *machine);

/* How many processes a world has, and on how many machines. */
typedef struct weft_spread {
    int processes, machines;
} weft_spread;

/* The link that the processes of such a world wait for: between machines if there are several. The built-in
 * one where it is not known. */
weft_link weft_machine_link(const weft_machine *machine, weft_spread spread);
weft_cost_model weft_machine_cost(const weft_machine *machine, weft_spread spread);
/* For the slowest link there is, the one between machines, whatever the world: heights say in which order
 * sums are added, and results do not depend on how ranks are spread over processes. */
weft_panel_policy weft_machine_panels(const weft_machine *machine);

/* How a panel travels. */
typedef struct weft_message_sizes {
    int64_t max_bytes;     /* of a message: larger pieces are cut */
    int64_t window_bytes;  /* under way to one process at a time */
    int64_t landing_bytes; /* of other processes' addends, held by one redistribution at a time; about */
} weft_message_sizes;
weft_message_sizes weft_machine_messages(const weft_machine *machine, weft_spread spread);

/* Every figure is one that a machine can have: above 0 and not beyond all measure. Links may be unknown. */
bool weft_machine_possible(const weft_machine *machine);

/* The text form, a name and a number per line, in thousandths; the same in every locale. What is written can
 * be read; false when it could not be written, or is not possible. */
bool weft_machine_write(const weft_machine *machine, FILE *file);
/* False, and *machine as it was, for anything but a whole file of this version with figures that can be:
 * links may be unknown, the rest not. */
bool weft_machine_read(FILE *file, weft_machine *machine);

#endif
