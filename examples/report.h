/* Beginning and end of a training program: the mesh, numbers as tensors and back, a summary, files. */
#ifndef EXAMPLES_REPORT_H
#define EXAMPLES_REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/weft.h>

/* weft_init() with first * second ranks, spread over the processes, and a mesh of them, with these names, as the current
 * one. False: an error, kept by weft, or after a message of its own. */
bool world_start(const char *program, const char *const names[2], int64_t first, int64_t second, int64_t seed);
/* weft_finalize(), after weft's message if the program has failed. The exit status. */
int world_end(const char *program, bool good);

/* Symbols [rows, width], or [rows] with width 1 and ndim 1, as a tensor. Every process has all of them, and copies
 * those of its hosted ranks. */
weft_tensor *tensor_of_rows(int32_t *symbols, int ndim, const int64_t shape[],
                            const weft_placement *placements);

/* Waits for a replicated scalar, reads and releases it. */
double read_loss(weft_tensor *loss);

typedef struct summary {
    const char *example;
    int64_t dp, tp; /* sizes of the mesh */
    int64_t parameters, steps;
    const char *token;      /* name of what it reads, in the plural */
    int64_t tokens;         /* of them, in `seconds` */
    const double *losses;   /* of the steps */
    double validation_loss; /* NAN: none */
    double seconds;         /* of the steps, or of the later ones */
    int64_t work[3];        /* of work_count(), after the steps */
    bool all_losses;        /* in the JSON object */
} summary;

/* Counts tasks, transfers and bytes of all processes until now. False: an error, kept by weft. */
bool work_count(int64_t work[3]);

/* Lines of a table: the mesh, ranks and processes; work_count()'s figures. */
void mesh_print(int64_t first, int64_t second);
void work_print(const int64_t work[3]);

/* Process 0 prints a line on a training that goes on. */
void validation_print(int64_t step, double loss, double validation_loss);

/* Process 0 prints the chart and the table, writes the losses to the file `curve`, one per line (NULL: to none), and
 * prints one JSON object if asked. False: weft has kept an error, or the file cannot be written, after a message. */
bool summary_print(const summary *s, const char *curve, bool json);

#endif
