/* Command line of the programs that train on a text: what they all have. */
#ifndef EXAMPLES_TRAINING_OPTIONS_H
#define EXAMPLES_TRAINING_OPTIONS_H

#include "arguments.h"

typedef struct training_options {
    int64_t fewest_steps; /* the program's, no option */
    int64_t steps, batch;
    int64_t seed;   /* of the weights, the batches and the writing */
    int64_t sample; /* bytes to write at the end; 0: none */
    double rate, temperature;
    const char *text, *curve; /* curve: file for the losses; NULL: none */
    bool graph; /* steps are captured */
    bool json;
} training_options;

/* Reads the program's own options and these into variables that hold the defaults. As arguments_read(). */
int training_options_read(training_options *t, int num_own, const argument own[], const char *introduction, int argc,
                          char *argv[]);

#endif
