/* src/graph/save: saved graphs. The newest run's traces are written as text (save.c), read again (saved_words.c,
 * saved_read.c), and made a graph again on meshes of other sizes (saved_graph.c). docs/graphs.md describes the file. */
#ifndef WEFT_SRC_GRAPH_SAVE_SAVED_H
#define WEFT_SRC_GRAPH_SAVE_SAVED_H

#include "graph/run/graph.h"

#define WEFT_SAVED_GRAPH "weft-graph" /* the first word of a file */
enum { WEFT_SAVED_VERSION = 1 };

/* ---- names of functions (saved_names.c) ------------------------------------------------------------------------- */

/* An operation or an action, and how many others of this name come before it. */
typedef struct weft_saved_name {
    const char *name;
    size_t number;
} weft_saved_name;

/* False: it has no name in files, as operations of the program's. */
bool weft_saved_name_of(const weft_call *call, weft_saved_name *found);
/* Sets the call's operation or action; the name has `length` characters. False: there is none. */
bool weft_saved_name_find(const char *name, size_t length, size_t number, weft_call *call);

/* ---- a file that has been read (saved_words.c, saved_read.c) -------------------------------------------------------------------- */

typedef struct weft_saved_mesh {
    int line;
    int ndim;
    char *names[WEFT_MAX_DIMS]; /* NULL: none */
    int64_t shape[WEFT_MAX_DIMS];
    int64_t num_ranks;
    int *ranks;      /* NULL: 0 .. num_ranks - 1 */
    const weft_mesh_impl *made; /* in this world */
} weft_saved_mesh;

typedef struct weft_saved_layout {
    int mesh; /* its number */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    weft_placement placements[WEFT_MAX_DIMS];
} weft_saved_layout;

typedef struct weft_saved_input {
    int line;
    int number;
    bool is_fake;
    weft_saved_layout layout;
    weft_tensor *made;
} weft_saved_input;

typedef struct weft_saved_call {
    int line;
    weft_call call; /* without tensors and details */
    weft_call_details details; /* without tensors and layout */
    bool implicit;
    bool has_details, has_layout;
    weft_saved_layout layout; /* of details.layout */
    int num_tensors, num_outputs;
    int *numbers;               /* of its tensors, then of its outputs; -1: not asked for */
    weft_saved_layout *layouts; /* of the outputs */
} weft_saved_call;

typedef struct weft_saved_segment {
    weft_vec inputs; /* weft_saved_input */
    weft_vec calls;  /* weft_saved_call */
    weft_vec wanted; /* int: values that the program has kept */
    int num_values;
} weft_saved_segment;

typedef struct weft_saved_graph {
    char *path, *name;
    weft_vec meshes;   /* weft_saved_mesh */
    weft_vec segments; /* weft_saved_segment */
    weft_vec memory;   /* void *: blocks of all texts and arrays */
    weft_vec kept;     /* weft_tensor *: references that the newest run has left */
} weft_saved_graph;

/* Whether a file begins like a saved graph. */
bool weft_saved_graph_is(const char *path);
/* NULL with the error kept, which names the line. No world is needed. */
weft_saved_graph *weft_saved_graph_read(const char *function, const char *path);
/* May be NULL. */
void weft_saved_graph_free(weft_saved_graph *saved);

/* ---- making it again (saved_graph.c) ----------------------------------------------------------------------------- */

/* Sizes of mesh dimensions, by name, or, without names, by position. */
typedef struct weft_mesh_sizes {
    int count;
    const char *names[WEFT_MAX_DIMS]; /* all or none are NULL */
    int64_t sizes[WEFT_MAX_DIMS];
} weft_mesh_sizes;

/* The ranks that the meshes need; of sizes->count 0: those of the file. */
int64_t weft_saved_graph_ranks(const weft_saved_graph *saved, const weft_mesh_sizes *sizes);
/* A graph without inputs and outputs, whose function makes the file's calls; valid as long as `saved`. NULL with the error
 * kept. */
weft_graph *weft_saved_graph_make(const char *function, weft_saved_graph *saved, const weft_mesh_sizes *sizes);

#endif
