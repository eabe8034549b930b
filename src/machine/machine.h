/* src/machine: what this machine can do, and the consequences.
 *
 *   measuring     a task, a copy, a product (measure.c); a link to another process (link.c)
 *   keeping       in a text file beside StarPU's performance models (keep.c, models.c, folder.c)
 *   agreeing      one set of figures on every process of a world (agree.c)
 *   consequences  costs, panel heights, message sizes (machine.c)
 *
 * This header and machine.c know no StarPU. The planner's cost model belongs to src/plan and is filled in
 * here. StarPU's own figures (starpu_transfer_bandwidth() and its performance models) say other things:
 * docs/machine.md. */
#ifndef WEFT_SRC_MACHINE_H
#define WEFT_SRC_MACHINE_H

#include <stdio.h>

#include "plan/plan.h"

/* Between two processes. bytes_per_us 0: not known. */
typedef struct weft_link {
    double latency_us;   /* of a small message, one way */
    double message_us;   /* cost of a message beside its bytes */
    double bytes_per_us; /* of a stream of messages, one way */
} weft_link;

typedef struct weft_machine {
    double task_us;              /* a StarPU task that does nothing: submitted and executed */
    double copy_bytes_per_us;    /* of one worker, in memory that no cache holds */
    double product_flops_per_us; /* of one worker: matrix product in single precision */
    weft_link near, far;         /* between two processes of one machine; of two machines */
} weft_machine;

/* The built-in figures, for plans of worlds without a machine, and for WEFT_CALIBRATE=off. */
#define WEFT_MACHINE_DEFAULT                                                                                 \
    {                                                                                                        \
        2.0, 5000.0, 20000.0, { 30.0, 3.0, 118.0 },                                                          \
        {                                                                                                    \
            30.0, 3.0, 118.0                                                                                 \
        }                                                                                                    \
    }

bool weft_link_known(const weft_link *link);
/* Every figure rounded to the nearest power of two: another measurement nearly always gives the same
 * values, and so the same panels, plans and orders of sums. */
weft_machine weft_machine_rounded(const weft_machine *machine);

/* The number of processes in a world, and of their machines. */
typedef struct weft_spread {
    int processes, machines;
} weft_spread;

/* The link that determines such a world's speed: between machines if there are several. The built-in one
 * if it is not known. */
weft_link weft_machine_link(const weft_machine *machine, weft_spread spread);
weft_cost_model weft_machine_cost(const weft_machine *machine, weft_spread spread);
/* For the slowest link, the one between machines, whatever the world: heights determine the order of sums,
 * and results must not depend on how ranks are spread over processes. */
weft_panel_policy weft_machine_panels(const weft_machine *machine);
/* What the processes of a world agree on about their CUDA devices. */
typedef struct weft_device_world {
    int64_t bytes; /* memory of the smallest device; 0: no process has one */
    int per_rank;  /* the most devices that one rank has for itself, rounded up; at least 1 where there are devices */
} weft_device_world;

/* Panels of at least `panel_bytes` bytes, or of `panel_rows` rows (0: not set); else those that suit the world's devices, if it has
 * some that heights should suit, and the machine. */
weft_panel_policy weft_machine_prescribed_panels(const weft_machine *machine, int64_t panel_bytes,
                                                 int64_t panel_rows, weft_device_world devices);

/* Sizes of a panel's messages. */
typedef struct weft_message_sizes {
    int64_t max_bytes;     /* of a message: larger pieces are cut */
    int64_t window_bytes;  /* under way to one process at a time */
    int64_t staging_bytes; /* of other processes' addends, held by one redistribution at a time; about */
} weft_message_sizes;
weft_message_sizes weft_machine_messages(const weft_machine *machine, weft_spread spread);

/* Every figure is one that a machine can have: positive and not absurdly large. Links may be unknown. */
bool weft_machine_possible(const weft_machine *machine);

/* The text form, a name and a number per line, in thousandths; the same in every locale. It can be read
 * back; false if it could not be written, or a figure is not possible. */
bool weft_machine_write(const weft_machine *machine, FILE *file);
/* False, with *machine unchanged, for anything but a complete file of this version with possible figures.
 * Links may be unknown, other figures not. */
bool weft_machine_read(FILE *file, weft_machine *machine);
/* The same without the last line, for files that have more (model.h); and one line. */
bool weft_machine_write_figures(const weft_machine *machine, FILE *file);
bool weft_machine_read_figures(FILE *file, weft_machine *machine);
bool weft_machine_write_figure(FILE *file, const char *name, double value);

/* ---- which machine (identity.c) ------------------------------------------------------------------------ */

/* Identifies the clock CLOCK_MONOTONIC: one boot of one kernel. Processes in containers of one machine
 * have host names of their own, but share this. */
void weft_machine_name(char *name, size_t size);
/* The same number for processes of one machine: of one kernel and one network, because containers have
 * networks of their own. */
uint64_t weft_machine_id(void);

/* ---- for the reader (print.c) -------------------------------------------------------------------------- */

typedef struct weft_machine_facts {
    const weft_machine *measured, *used; /* as measured, and as rounded */
    const char *source;                  /* "kept", ... */
    const char *path;                    /* of the file; NULL: they are not kept */
    weft_spread spread;
    const weft_panel_policy *panels;
    const weft_message_sizes *messages;
} weft_machine_facts;
void weft_machine_print(const weft_machine_facts *facts, FILE *file);

#endif
