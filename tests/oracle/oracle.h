/* The oracle: cases with PyTorch's answers (cases/, made by generate.py), their runs and comparisons. */
#ifndef WEFT_TESTS_ORACLE_H
#define WEFT_TESTS_ORACLE_H

#include <stdio.h>

#include "support.h"

enum {
    ORACLE_MESH_DIMS = 2,
    ORACLE_RANKS = 6,
    ORACLE_INPUTS = 6,
    ORACLE_OUTPUTS = 12,
    ORACLE_ATTRIBUTES = 12
};

/* ---- a case as it is written (reader.c) ---------------------------------------------------------------- */

typedef struct oracle_input {
    bool absent; /* "-" */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], count;
    weft_placement placements[ORACLE_MESH_DIMS];
    uint64_t seed;
    int64_t low, high, denominator; /* values are whole numbers low .. high, divided by a power of two */
    bool special;                   /* one element in eight is at the edge of its type */
    bool distinct;                  /* no value twice */
    void *literal;                  /* elements, in place of all these; NULL: none */
} oracle_input;

typedef struct oracle_output {
    bool absent; /* "-" */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], count;
    void *elements;    /* PyTorch's, row-major */
    double magnitude;  /* of the terms of a sum, where these are larger than it */
    const char *torch; /* PyTorch's placements as text, or "!n"; of gradients: NULL */
} oracle_output;

typedef struct oracle_case {
    const char *operation;
    int line;
    int mesh_ndim;
    int64_t mesh_shape[ORACLE_MESH_DIMS];
    int num_inputs, num_attributes, num_outputs;
    oracle_input inputs[ORACLE_INPUTS];
    struct {
        const char *name, *value;
    } attributes[ORACLE_ATTRIBUTES];
    /* Of gradients: those of the operation's outputs, and directions for second derivatives. `outputs` are gradients of
     * inputs then, and with directions those of seeds after them. */
    int num_seeds, num_directions;
    oracle_input seeds[ORACLE_OUTPUTS], directions[ORACLE_INPUTS];
    oracle_output outputs[ORACLE_OUTPUTS];
} oracle_case;

typedef struct oracle_file {
    char *path, *text; /* the cases point into the text */
    int num_cases, num_refusals;
    oracle_case *cases;
    const char **refusals;
} oracle_file;

/* Fails the test with file and line where the text is not as it should be. */
oracle_file oracle_read(const char *folder, const char *name);
void oracle_close(oracle_file *file);

/* Outputs of the operation. */
int oracle_results(const oracle_case *c);

/* Attributes by name. A list has at most WEFT_MAX_DIMS numbers and may be empty; it returns how many. \{ */
bool oracle_has(const oracle_case *c, const char *name);
double oracle_number(const oracle_case *c, const char *name);
int oracle_list(const oracle_case *c, const char *name, int64_t numbers[]);
weft_dtype oracle_type(const oracle_case *c, const char *name);
/* \} */

/* ---- values (values.c) --------------------------------------------------------------------------------- */

bool oracle_is_floating(weft_dtype dtype);
/* Element i of an array, of floating and of other types. */
double oracle_load_real(weft_dtype dtype, const void *array, int64_t i);
int64_t oracle_load_whole(weft_dtype dtype, const void *array, int64_t i);
/* Values that the type holds exactly; integers wrap around. */
void oracle_store_real(weft_dtype dtype, void *array, int64_t i, double value);
void oracle_store_whole(weft_dtype dtype, void *array, int64_t i, int64_t value);
/* Distance of two elements in units of the last place of a number as large as `expected` or `magnitude`;
 * INFINITY if only one is NaN or infinite, or if elements that are not floating differ. */
double oracle_distance(weft_dtype dtype, const void *got, const void *expected, int64_t i, double magnitude);

/* ---- inputs (inputs.c) --------------------------------------------------------------------------------- */

/* In the layout of the case; Partial ones are made of addends that depend on the seed. */
weft_tensor *oracle_tensor(const oracle_input *input, weft_mesh *mesh, bool from_local);
/* Addends of each element; an absent one: 1. */
int64_t oracle_parts(const oracle_case *c, const oracle_input *input);

/* ---- the operations (calls*.c) ------------------------------------------------------------------------- */

typedef struct oracle_operation {
    const char *name;
    /* One of these. */
    weft_tensor *(*unary)(weft_tensor *);
    weft_tensor *(*binary)(weft_tensor *, weft_tensor *);
    weft_tensor *(*ternary)(weft_tensor *, weft_tensor *, weft_tensor *);
    weft_tensor *(*call)(const oracle_case *c, weft_tensor *const in[]);
    /* Returns the first output and writes the others to out[1], out[2], ... */
    weft_tensor *(*several)(const oracle_case *c, weft_tensor *const in[], weft_tensor *out[]);
    weft_tensor *(*over_dim)(weft_tensor *, int dim, bool keepdim);
    weft_tensor *(*over_all)(weft_tensor *, int dim, bool keepdim);
    weft_tensor *(*over_dims)(weft_tensor *, int dims, bool keepdim);
    double ulps; /* allowed in f32 and f64; 16-bit types are rounded once from f32: 1 where this is not 0 */
    const char *why; /* where it is not 0 */
} oracle_operation;

/* NULL: not in the table. */
const oracle_operation *oracle_find(const char *name);
/* False: no such operation any more. */
bool oracle_operation_at(int i, const oracle_operation **operation);
/* Writes the outputs. */
void oracle_call(const oracle_operation *operation, const oracle_case *c, weft_tensor *const in[],
                 weft_tensor *out[]);

/* ---- comparison (compare.c) ---------------------------------------------------------------------------- */

/* The file that gets a hash of each result that is compared; NULL: none. */
extern FILE *oracle_bits;
/* Cases that failed since oracle_start(). */
extern int oracle_failures;

/* Counts a case that fails; prints the first few. Returns false. */
bool oracle_complain(const oracle_file *file, const oracle_case *c, const char *format, ...);
/* Compares a result on all ranks and on the host; *ulps becomes the largest distance, if that is more. */
bool oracle_compare(const oracle_file *file, const oracle_case *c, const oracle_output *expected,
                    double allowed, weft_tensor *tensor, double *ulps);
/* Whether case `number` is run: with WEFT_TEST_STEP=n one of n cases, which one says WEFT_TEST_FIRST (0), and WEFT_TEST_TURN (0)
 * moves on; and of `step` of those number `first`. */
bool oracle_runs(int number, int first, int step);
/* WEFT_TEST_STEP, or 1. */
int oracle_sparsity(void);
/* The library with this height of panels (NULL: by default), and its end, which fails the test for cases that failed. \{ */
void oracle_start(const char *panel_rows);
void oracle_stop(void);
/* \} */

/* What gradients may be off by. */
enum { ORACLE_GRADIENT_ULPS = 8 };

/* ---- gradients (gradients.c) --------------------------------------------------------------------------- */

/* Reads the files of a folder; 0: done. And frees them. \{ */
int oracle_open_gradients(const char *folder);
void oracle_close_gradients(void);
/* \} */
void oracle_test_gradients(void **state);
void oracle_test_gradients_in_panels(void **state);
/* Behind the first: each differentiable operation has a case. */
void oracle_test_gradients_of_all(void **state);

/* ---- files (reader.c) ---------------------------------------------------------------------------------- */

enum { ORACLE_FILES = 64 };

typedef struct oracle_folder {
    oracle_file files[ORACLE_FILES];
    int num_files;
} oracle_folder;

/* Reads all files of a folder; 0: done. */
int oracle_open_folder(oracle_folder *folder, const char *path);
void oracle_close_folder(oracle_folder *folder);

/* ---- the report (report.c) ----------------------------------------------------------------------------- */

/* One case that has run: the largest distance, and the output's placements beside PyTorch's. */
void oracle_count(const oracle_file *file, const oracle_case *c, double ulps, weft_tensor *const out[]);
/* The same of gradients: only the distance. */
void oracle_count_gradient(const oracle_case *c, double ulps);
void oracle_write_report(FILE *file);

#endif
