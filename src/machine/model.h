/* A machine as predictions see it: its figures, and rates of kernels. The text form is that of the kept figures
 * (machine.h) with lines "NAME NUMBER" between the last figure and "end", any of them, in any order; what is missing follows
 * from the figures. docs/machine.md has the names. */
#ifndef WEFT_SRC_MACHINE_MODEL_H
#define WEFT_SRC_MACHINE_MODEL_H

#include "machine/machine.h"

typedef struct weft_machine_model {
    weft_machine machine;
    /* Rates of one worker. */
    double f64_flops_per_us, f16_flops_per_us; /* matrix products; of single precision: machine.product_flops_per_us */
    double attention_flops_per_us, convolution_flops_per_us;
    double elementwise_bytes_per_us, row_bytes_per_us, random_bytes_per_us; /* read and written */
    double submit_us, operand_us, worker_us; /* of a task: on the submitting thread, for each operand, on its worker */
    double transfer_us;                      /* between a transfer's data and its first message */
    double message_cpu_us, cpu_bytes_per_us; /* processor time of messages; 0: none */
    double workers, cores;                   /* of a process; 0: not said */
} weft_machine_model;

/* All that follows from the figures. */
weft_machine_model weft_machine_model_of(const weft_machine *machine);
/* False for anything but a complete file; `why` gets the reason. */
bool weft_machine_model_read(FILE *file, weft_machine_model *model, char *why, size_t size);
bool weft_machine_model_write(const weft_machine_model *model, FILE *file);

#endif
