/* Programs that take the same steps by MPI alone and by weft: alternating turns, their result, and the main program. */
#ifndef EXAMPLES_TURNS_H
#define EXAMPLES_TURNS_H

#include "arguments.h"

/* One of these programs. */
typedef struct turns_program {
    const char *name;
    const char *introduction; /* for --help */
    const char *part;         /* what a process has one of: "tile" */
    int workers;              /* weft_config.workers */
    int num_arguments;
    const argument *arguments;
    bool (*run)(void); /* within MPI and weft; calls turns_end() before it frees what weft may use */
} turns_program;

/* The whole program: reads the command line, starts MPI and weft, runs, and returns the exit status. */
int turns_main(const turns_program *program, int argc, char *argv[]);
/* Prints an error of weft, and finalises it. Whether all was good. */
bool turns_end(const turns_program *program, bool good);

/* The same on all processes: whether it is true on each. */
bool turns_all(bool good);

/* Seconds of the fastest turn of each way, those of the slowest process. */
typedef struct turns_seconds {
    double plain, weft;
} turns_seconds;

/* Takes the turns, alternating, because other programs of the machine slow down both ways: `start` makes the state before the
 * steps, `take` takes them. */
turns_seconds turns_measure(int64_t turns, void *context, void (*start)(void *context, bool by_weft),
                            void (*take)(void *context, bool by_weft));

/* The times of the turns, and the words to print them with. */
typedef struct turns_report {
    const char *step; /* "step" */
    int64_t steps;
    int ndim;
    const int64_t *size;
    turns_seconds seconds;
} turns_report;

/* "1001 x 991 points, 100 steps" and `processes`, then the times. */
void turns_print(const turns_report *report, const char *processes);
/* A JSON object, but for its end. */
void turns_print_json(const turns_program *program, const turns_report *report);

#endif
