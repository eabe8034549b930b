/** \file
 * Modules: trees of named parameters with forward functions, like PyTorch's torch.nn.Module, and their distribution
 * over a mesh.
 *
 *     weft_module *linear(int64_t in, int64_t out)
 *     {
 *         weft_module *module = weft_module_create("linear");
 *         weft_module_add_parameter(module, "weight", weft_randn(WEFT_F32, 2, (int64_t[]){ in, out }, NULL, NULL));
 *         weft_module_set_forward(module, linear_forward, NULL);
 *         return module;
 *     }
 *     weft_status linear_forward(weft_module *self, int num_inputs, weft_tensor *const inputs[], int num_outputs,
 *                                weft_tensor *outputs[], void *context)
 *     {
 *         outputs[0] = weft_matmul(inputs[0], weft_module_use(self, "weight"));
 *         return WEFT_OK;
 *     }
 *     ...
 *     weft_module_add_child(mlp, "up", linear(64, 256));
 *     weft_module_add_child(mlp, "down", linear(256, 64));
 *     const weft_parallel plan[] = {
 *         { "up", WEFT_PARALLEL_COLUMNS, "tp" },
 *         { "down", WEFT_PARALLEL_ROWS, "tp" },
 *         { "**", WEFT_PARALLEL_FULLY_SHARDED, "dp" },
 *     };
 *     weft_parallelize(mlp, mesh, 3, plan);
 *     weft_tensor *y = weft_module_call(mlp, x);
 *
 * You can use the same forward functions with every layout. The plan decides which rank holds which part of a
 * parameter, and the layouts determine the communication.
 *
 * No function of this header waits. All processes make the same calls in the same order. */
#ifndef WEFT_MODULE_H
#define WEFT_MODULE_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** An opaque handle, not an address. If you pass the handle of a freed module, the function returns
 * WEFT_ERR_INVALID. */
typedef struct weft_module weft_module;

/* ---- the tree -------------------------------------------------------------------------------------------- */

/** Creates an empty module, the root of its own tree. Messages show `type` ("attention"; copied), and partition
 * functions can tell modules apart by it. The caller owns the module until it becomes a child. NULL on error. */
WEFT_API weft_module *weft_module_create(const char *type);
/** Frees a root with all its children, and releases their tensors. WEFT_ERR_STATE if the module is a child (its root
 * owns it), or if you call this from within its forward function. weft_finalize() frees modules that are left. */
WEFT_API weft_status weft_module_destroy(weft_module *module);

/** Names may contain any character except '.', must not be empty, and are unique in a module. A path joins the names
 * that lead from a module down with '.': "layers.0.attention.wq.weight". The path "" is the module itself. */

/** Makes `child` a child of `module`, which owns it from then on. WEFT_ERR_STATE if `child` already has a parent. */
WEFT_API weft_status weft_module_add_child(weft_module *module, const char *name, weft_module *child);
/** Adds a parameter. The tensor must be of a floating type, and becomes a leaf (weft_set_requires_grad()). If it was
 * computed from leaves, the module takes its values (weft_detach()). The module takes a reference of its own. It
 * names the tensor by its path from the root; traces and messages show that name. The same tensor may be a parameter
 * several times (tied weights). NULL adds an empty slot. */
WEFT_API weft_status weft_module_add_parameter(weft_module *module, const char *name, weft_tensor *tensor);
/** Adds a buffer: a tensor of any type that is not a parameter. The tensor stays as it is, and needs no gradient. */
WEFT_API weft_status weft_module_add_buffer(weft_module *module, const char *name, weft_tensor *tensor);
/** Replaces the tensor in a parameter's or buffer's slot (NULL empties it). A parameter's new tensor becomes a leaf if
 * the old one is a leaf or the slot was empty. So you can replace a parameter by its redistributed version. Gradients
 * and hooks stay with the old tensor. A layout set by weft_module_set_use() remains in effect if the new tensor has
 * as many dimensions and is on the same mesh. If you call it in a partition function, the layout of this slot is
 * settled. */
WEFT_API weft_status weft_module_set_tensor(weft_module *module, const char *path, weft_tensor *tensor);

/** Return a parameter or buffer as a borrowed reference, valid as long as the module holds it. NULL without an error
 * if the slot is empty; NULL with WEFT_ERR_INVALID if there is no such path. \{ */
WEFT_API weft_tensor *weft_module_parameter(const weft_module *module, const char *path);
WEFT_API weft_tensor *weft_module_buffer(const weft_module *module, const char *path);
/** \} */
/** Returns the tensor to compute with; call it in forward functions. It is the parameter or buffer in the layout that
 * its parallel style, or weft_module_set_use(), asks for.
 *
 * A fully sharded parameter is gathered into a new tensor of the innermost scope, whose rows arrive as tasks. In the
 * backward pass it is gathered again, even if it is frozen and requires no gradient. Between weft_autocast_begin()
 * and weft_autocast_end() it is gathered when a call first reads it. A call that takes 16 bits gathers it in 16 bits,
 * which gives the same values (PyTorch: FSDP2's MixedPrecisionPolicy).
 *
 * If the layout does not change, the function returns the tensor itself. NULL as in weft_module_parameter(). */
WEFT_API weft_tensor *weft_module_use(weft_module *module, const char *path);
/** Returns the child at a path. NULL with WEFT_ERR_INVALID if there is no such path. */
WEFT_API weft_module *weft_module_child(const weft_module *module, const char *path);

/** List the tree below `module` by paths, in a fixed order: first a module's own slots in the order in which you added
 * them, then its children, each with everything below it. Empty slots are left out. A tensor in several slots is
 * listed once, under its first name.
 *
 * \param max    room in both arrays; if it is 0 they may be NULL
 * \param names  NULL, or receives the paths, which are valid until the tree changes
 * \return how many there are, even if that is more than `max`; 0 on error \{ */
WEFT_API int weft_module_parameters(const weft_module *module, int max, const char *names[], weft_tensor *parameters[]);
WEFT_API int weft_module_buffers(const weft_module *module, int max, const char *names[], weft_tensor *buffers[]);
/** Lists all modules, `module` itself ("") first. */
WEFT_API int weft_module_modules(const weft_module *module, int max, const char *names[], weft_module *modules[]);
/** \} */

/** Returns the type given to weft_module_create(). NULL on error. */
WEFT_API const char *weft_module_type(const weft_module *module);
/** Returns the path from the root; "" if the module is a root. Valid until the tree changes. NULL on error. */
WEFT_API const char *weft_module_name(const weft_module *module);
/** Returns the mesh that the module was distributed over; NULL if it has not been distributed. */
WEFT_API weft_mesh *weft_module_mesh(const weft_module *module);

/** Prints the tree: types, names, shapes and layouts. Waits for nothing.
 *
 *     mlp
 *       up: linear
 *         weight: f32[64, 256] [S0,S1] on 2x2 (dp, tp), used as [R,S1]
 *       down: linear
 *         ... */
WEFT_API weft_status weft_module_print(const weft_module *module, FILE *file);

/* ---- forward --------------------------------------------------------------------------------------------- */

/** A forward function: computes the outputs. It runs in a scope of its own. When it ends, all tensors except the
 * outputs are released, including gathered parameters. It must set every output. WEFT_ERR_STATE if it leaves open a
 * scope, or a region of weft_no_grad_begin() or weft_autocast_begin(). (A hook that runs before the function may open
 * one that a hook after it closes.) After an error, scopes and regions are as before the call. */
typedef weft_status (*weft_forward_function)(weft_module *module, int num_inputs, weft_tensor *const inputs[],
                                             int num_outputs, weft_tensor *outputs[], void *context);
/** Sets the forward function of a module.
 *
 * \param context  your data, passed to the function; must outlive the module */
WEFT_API weft_status weft_module_set_forward(weft_module *module, weft_forward_function forward, void *context);
/** Returns the context given to weft_module_set_forward(). */
WEFT_API void *weft_module_context(const weft_module *module);

/** Calls the hooks before the forward function, the function, and the hooks after it. The outputs are tensors of the
 * innermost scope; on error all are NULL. WEFT_ERR_STATE if the module has no forward function. For one input and one
 * output use weft_module_call().
 *
 *     weft_module_forward(module, 2, (weft_tensor *[]){ x, mask }, 1, &y); */
WEFT_API weft_status weft_module_forward(weft_module *module, int num_inputs, weft_tensor *const inputs[],
                                         int num_outputs, weft_tensor *outputs[]);
/** Calls a module with one input and one output, as weft_module_forward() does. NULL on error. */
WEFT_API weft_tensor *weft_module_call(weft_module *module, weft_tensor *input);

/** A hook: sees, and may replace, the inputs before a forward function or the outputs after it. `mesh` is the result
 * of weft_module_mesh(). If the hook returns an error, the forward pass ends with it. */
typedef weft_status (*weft_module_function)(weft_module *module, weft_mesh *mesh, int num_tensors,
                                            weft_tensor *tensors[], void *context);
typedef enum weft_module_when { WEFT_BEFORE_FORWARD = 0, WEFT_AFTER_FORWARD } weft_module_when;
/** Adds a hook. Hooks are called in the order in which you added them. The input and output functions of
 * weft_distribute_module(), and the layouts of parallel styles, are added as hooks when the module is distributed. */
WEFT_API weft_status weft_module_add_hook(weft_module *module, weft_module_when when, weft_module_function hook,
                                          void *context);

/* ---- distribution ---------------------------------------------------------------------------------------- */

/** A partition function: called for each module of the tree in the order of weft_module_modules(), the root ("")
 * first. It chooses layouts by weft_module_place(), weft_module_set_use() and weft_module_set_tensor(). If it returns
 * an error, the distribution ends with it. */
typedef weft_status (*weft_partition_function)(const char *name, weft_module *module, weft_mesh *mesh, void *context);

/**
 * Distributes all parameters and buffers over a mesh (PyTorch: torch.distributed.tensor.distribute_module). A tensor
 * that the partition function does not place becomes Replicate; without a partition function that is all of them.
 * Empty slots stay empty, and tied parameters stay tied. Parameters that require a gradient still do.
 *
 * A part of the tree may already have been distributed, over this mesh or another. It keeps its hooks, and its
 * layouts unless the partition function changes them.
 *
 * \param module     the root of the tree to distribute. WEFT_ERR_STATE if it has been distributed already
 * \param mesh       NULL: the current mesh
 * \param partition  may be NULL
 * \param input      added as a hook before the forward function of `module` itself, not of the modules below it; may
 *                   be NULL
 * \param output     added as a hook after it; may be NULL
 * \param context    passed to all three; must outlive the module
 *
 * If anything fails, the partition function included, all slots get their former tensors back. The message names the
 * module and the parameter.
 *
 * For example, with every parameter replicated and no hooks:
 *
 *     weft_distribute_module(model, mesh, NULL, NULL, NULL, NULL);
 */
WEFT_API weft_status weft_distribute_module(weft_module *module, weft_mesh *mesh, weft_partition_function partition,
                                            weft_module_function input, weft_module_function output, void *context);

/** Redistributes a parameter or buffer, in all slots that it is in; for partition functions. `placements` NULL:
 * Replicate. `mesh` as in weft_empty(). Does nothing if the slot is empty. */
WEFT_API weft_status weft_module_place(weft_module *module, const char *path, weft_mesh *mesh,
                                       const weft_placement *placements);
/**
 * Allocates memory for all parameters and buffers below a module that have no data (weft_fake()). They become new
 * tensors with undefined values, in the layouts that they have by now (PyTorch: to_empty() after the "meta" device).
 * So a model can be larger than the memory of one rank: distribute it first, then give it values. Random values do
 * not depend on the layout:
 *
 *     weft_module_add_parameter(layer, "weight", weft_fake(WEFT_F32, 2, shape, NULL, NULL));
 *     ...
 *     weft_parallelize(model, mesh, num_entries, plan);
 *     weft_module_materialize(model);
 *     weft_no_grad_begin();
 *     weft_normal_inplace(weft_module_parameter(model, "layers.0.weight"), 0, deviation);
 *
 * Leaves stay leaves, tied tensors stay tied, and the layouts that tensors are used in stay. Set gradient hooks
 * afterwards. On error all slots get their former tensors back, and the message names the parameter.
 */
WEFT_API weft_status weft_module_materialize(weft_module *module);
/** Sets the layout in which weft_module_use() returns a parameter or buffer, on its own mesh. NULL: its own layout
 * again. Gathered copies of a parameter are not kept for the backward pass, unless you call
 * weft_set_regather(parameter, false). Does nothing if the slot is empty. */
WEFT_API weft_status weft_module_set_use(weft_module *module, const char *path, const weft_placement *placements);

/* ---- parallel styles ------------------------------------------------------------------------------------- */

/** Layouts along one dimension of the mesh: those of a module's own parameters, and of the inputs and outputs of its
 * forward function. Matrices are [in, out], for y = x W. */
typedef enum weft_parallel_style {
    /** Parameters become Replicate. Inputs and outputs get the layouts of the entry; if it has none, they stay as they
     * are. */
    WEFT_PARALLEL_LAYOUTS = 0,
    /** Column-wise: each rank computes some of the outputs. Parameters become Shard(-1), both matrices and vectors
     * (biases). Inputs become Replicate. Outputs stay as they are computed: Shard(-1). In tensor parallelism, use it
     * for the first of two linear layers, for queries, keys and values, and for a head whose vocabulary is sharded.
     * If several such layers read one sharded tensor, add an entry with WEFT_PARALLEL_LAYOUTS and inputs "R" for the
     * module around them, so that the tensor is gathered only once. */
    WEFT_PARALLEL_COLUMNS,
    /** Row-wise: each rank has some of the inputs. Matrices become Shard(-2), vectors Replicate. Inputs become
     * Shard(-1). Outputs are computed as addends and become Replicate ("S1" keeps the sequence sharded). Use it for
     * the second of two linear layers. */
    WEFT_PARALLEL_ROWS,
    /** For a table: each rank has some of the rows. Parameters become Shard(0), inputs and outputs Replicate ("S1" for
     * the outputs keeps the sequence sharded). */
    WEFT_PARALLEL_EMBEDDING,
    /** Parameters become Replicate; inputs and outputs become Shard(1), the sequence of [batch, sequence, width]. Use
     * it for norms, and for anything else that computes row by row. */
    WEFT_PARALLEL_SEQUENCE,
    /** Parameters become Replicate. If the module is the root, its inputs become Shard(0), the batch. */
    WEFT_PARALLEL_DATA,
    /** As WEFT_PARALLEL_DATA, but parameters are sharded too (FSDP, ZeRO-3): on the first tensor dimension that no
     * other entry shards and that has an element for each rank. weft_module_use() gathers them. The gathered copies
     * are released when the forward function ends, and gathered again in the backward pass. Gradients are
     * reduce-scattered. */
    WEFT_PARALLEL_FULLY_SHARDED
} weft_parallel_style;

/** An entry of a plan: a style for some modules along one dimension of the mesh. For example, { "layers.*.norm",
 * WEFT_PARALLEL_SEQUENCE, "tp" }. */
typedef struct weft_parallel {
    /** A pattern of paths from the root: "layers.*.attention.wq". '*' matches any characters except '.', '?' one
     * character except '.', and "**" any characters ("**" alone: all modules, including the root). */
    const char *modules;
    weft_parallel_style style;
    const char *mesh_dim; /**< name of the mesh dimension; may be NULL if the mesh has only one */
    /** Placements along this mesh dimension, one for each input or output, instead of the style's: "S1", "R,-". '-'
     * leaves one as it is, and so are those beyond the last. NULL: the style's placement, for each tensor that has
     * that tensor dimension. */
    const char *inputs, *outputs;
    const char *parameters; /**< placement of all parameters instead of the style's: "S0". NULL: the style's */
} weft_parallel;

/**
 * Distributes a tree of modules by a plan, as weft_distribute_module() does. For each module and mesh dimension the
 * first entry with a matching pattern applies. Entries along different mesh dimensions combine, on different tensor
 * dimensions or on the same one. For example, on a mesh with "dp" and "tp" the columns that "tp" shards may be fully
 * sharded over "dp". Along all other mesh dimensions parameters are Replicate, and inputs and outputs keep their
 * layout. Buffers are Replicate along all mesh dimensions.
 *
 * WEFT_ERR_INVALID if a pattern matches no module, a mesh dimension is unknown, or a text is not a list of
 * placements. The message names the entry, and nothing has changed.
 */
WEFT_API weft_status weft_parallelize(weft_module *module, weft_mesh *mesh, int num_entries,
                                      const weft_parallel plan[]);

WEFT_END_DECLS

#endif
