/* The oracle: cases with PyTorch's answers (cases/, made by generate.py), their runs and comparisons. */
#ifndef WEFT_TESTS_ORACLE_H
#define WEFT_TESTS_ORACLE_H

#include "../support.h"

enum { ORACLE_MESH_DIMS = 2, ORACLE_RANKS = 6, ORACLE_INPUTS = 6, ORACLE_OUTPUTS = 8, ORACLE_ATTRIBUTES = 8 };

/* ---- a case as it is written (reader.c) ---------------------------------------------------------------- */

typedef struct oracle_input {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], count;
    weft_placement placements[ORACLE_MESH_DIMS];
    uint64_t seed;
    int64_t low, high, denominator; /* values are whole numbers low .. high, divided by a power of two */
    bool special;                   /* one element in eight is at the edge of its type */
    bool distinct;                  /* no value twice */
} oracle_input;

typedef struct oracle_output {
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS], count;
    void *elements;    /* PyTorch's, row-major */
    double magnitude;  /* of the terms of a sum, where these are larger than it */
    const char *torch; /* PyTorch's placements as text, or "!n" */
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
/* Addends of each element. */
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
    weft_tensor *(*over_dims)(weft_tensor *, int num_dims, const int dims[], bool keepdim);
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

/* ---- the report (report.c) ----------------------------------------------------------------------------- */

/* One case that has run: the largest distance, and the output's placements beside PyTorch's. */
void oracle_count(const oracle_file *file, const oracle_case *c, double ulps, weft_tensor *const out[]);
void oracle_write_report(FILE *file);

#endif
