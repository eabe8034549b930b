/* Command lines: a table of options, each read into a variable of the program. */
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H

#include <stdbool.h>
#include <stdint.h>

#include <weft/base.h>

/* The most ranks along a dimension of a mesh: without mpirun all share one machine. */
enum { MOST_RANKS = 64 };

typedef enum argument_kind {
    ARGUMENT_FLAG,    /* into: bool; takes no value */
    ARGUMENT_INTEGER, /* into: int64_t, min .. max */
    ARGUMENT_NUMBER,  /* into: double, above 0 */
    ARGUMENT_STRING,  /* into: const char *, which points into argv */
    ARGUMENT_SIZES,   /* into: int64_t[]; "128x64" where `value` is "RxC", each min .. max; a default that begins with 0 is not shown */
    ARGUMENT_OTHER    /* whatever `read` makes of it */
} argument_kind;

typedef struct argument {
    const char *name; /* without "--" */
    argument_kind kind;
    void *into;        /* its former value is the default, which --help shows */
    const char *value; /* for --help: "N", "FILE"; NULL for flags */
    const char *help;
    int64_t min, max;
    bool (*read)(const char *text, void *into);
} argument;

/* A whole number of min .. max. */
bool integer_read(const char *text, int64_t min, int64_t max, int64_t *value);

/* "f32" or "f64", into a weft_dtype. For ARGUMENT_OTHER. */
bool float_type_read(const char *text, void *into);

/* Reads argv; --help prints `introduction` and the table. Returns -1 to continue; else the exit status: 0 after --help,
 * 2 after a message on an invalid argument. */
int arguments_read(int n, const argument table[], const char *introduction, int argc, char *argv[]);

#endif
