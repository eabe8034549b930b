/* Command line of char_lm. */
#ifndef CHAR_LM_OPTIONS_H
#define CHAR_LM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/base.h>

#include "training_options.h"

typedef struct options {
    int64_t mesh[2]; /* its dimensions dp and tp */
    int64_t hidden, embed;
    weft_dtype dtype;
    training_options run;
} options;

/* Reads the arguments into *o, beginning with defaults. Returns -1 to continue; else the exit status: 0
 * after --help, 2 after a message on an invalid argument. */
int options_read(options *o, int argc, char *argv[]);

#endif
