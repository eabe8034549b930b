/** \file
 * Modules: trees of named parameters with forward functions, as PyTorch's torch.nn.Module, and their distribution
 * over a mesh.
 *
 *     weft_module *linear(int64_t in, int64_t out)
 *     {
 *         weft_module *module = weft_module_new("linear");
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
 * The same forward functions serve every layout: the plan decides which rank holds which part of a parameter, and
 * communication follows from the layouts.
 *
 * Nothing here waits. All processes make the same calls in the same order. */
#ifndef WEFT_MODULE_H
#define WEFT_MODULE_H

#include <stdio.h>

#include <weft/base.h>
#include <weft/mesh.h>
#include <weft/placement.h>
#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/** A handle, not an address: that of a freed module is refused (WEFT_ERR_INVALID). */
typedef struct weft_module weft_module;

/* ---- the tree -------------------------------------------------------------------------------------------- */

/** A module without anything, the root of its own tree. `type` ("attention"; copied) is for messages, and for partition
 * functions to tell modules apart. Owned by the caller until it becomes a child. NULL on error. */
WEFT_API weft_module *weft_module_new(const char *type);
/** Frees a root with all its children, and releases their tensors. WEFT_ERR_STATE: a child (its root owns it), or
 * called from within its forward function. weft_finalize() frees modules that are left. */
WEFT_API weft_status weft_module_free(weft_module *module);

/** Names: letters, digits and all else but '.', not empty, each once in a module. Paths of names separated by '.'
 * lead from a module down: "layers.0.attention.wq.weight"; "" is the module itself. */

/** Makes `child`, a root, a child of `module`, which owns it from then on. WEFT_ERR_STATE: it has a parent already. */
WEFT_API weft_status weft_module_add_child(weft_module *module, const char *name, weft_module *child);
/** Adds a parameter: a floating tensor, which becomes a leaf (weft_set_requires_grad()); of one that was computed from
 * leaves the values (weft_detach()). The module takes a reference of its own, and names the tensor by its path from the
 * root, in traces and messages. One tensor may be a parameter several times (tied weights). NULL: an empty slot. */
WEFT_API weft_status weft_module_add_parameter(weft_module *module, const char *name, weft_tensor *tensor);
/** The same for a tensor of any type that is no parameter: it stays as it is, and needs no gradient. */
WEFT_API weft_status weft_module_add_buffer(weft_module *module, const char *name, weft_tensor *tensor);
/** Puts another tensor (NULL: none) into a slot, a parameter's or a buffer's. A parameter's becomes a leaf if the former
 * one is, or the slot was empty; so its redistributed version may take a parameter's place. Gradients and hooks of the
 * former one stay with that. A layout that the former one is used in holds for a tensor with as many dimensions on the
 * same mesh. In a partition function: the layout of this slot is settled. */
WEFT_API weft_status weft_module_set_tensor(weft_module *module, const char *path, weft_tensor *tensor);

/** Borrowed: valid while the module holds it. NULL without an error: an empty slot; with WEFT_ERR_INVALID: there is no
 * such path. \{ */
WEFT_API weft_tensor *weft_module_parameter(const weft_module *module, const char *path);
WEFT_API weft_tensor *weft_module_buffer(const weft_module *module, const char *path);
/** \} */
/** The tensor to compute with, to be called in forward functions: a parameter or buffer in the layout that its style
 * uses it in. That of a fully sharded parameter is gathered: a new tensor of the innermost scope, whose rows
 * arrive as tasks; also a frozen one, which requires no gradient, is gathered again in the backward pass. Between
 * weft_autocast_begin() and _end() it is gathered when a call first reads it: by calls that take 16 bits in 16 bits, which
 * gives the same values (PyTorch: FSDP2's MixedPrecisionPolicy). All others: the tensor itself. NULL: as
 * weft_module_parameter(). */
WEFT_API weft_tensor *weft_module_use(weft_module *module, const char *path);
/** NULL with WEFT_ERR_INVALID: there is no such path. */
WEFT_API weft_module *weft_module_child(const weft_module *module, const char *path);

/** The tree by paths from `module`, in a fixed order: a module's own slots in the order of their addition, then its
 * children, each with all below it. Empty slots are left out; a tensor in several slots comes once, under its first
 * name.
 * \param max      room in both arrays; 0: they may be NULL
 * \param names    NULL, or gets the paths: valid until the tree changes
 * \return how many there are, also where that is more than `max`; 0 on error \{ */
WEFT_API int weft_module_parameters(const weft_module *module, int max, const char *names[], weft_tensor *parameters[]);
WEFT_API int weft_module_buffers(const weft_module *module, int max, const char *names[], weft_tensor *buffers[]);
/** All modules, `module` itself first (""). */
WEFT_API int weft_module_modules(const weft_module *module, int max, const char *names[], weft_module *modules[]);
/** \} */

/** As given to weft_module_new(). NULL on error. */
WEFT_API const char *weft_module_type(const weft_module *module);
/** The path from the root; "" of a root. Valid until the tree changes. NULL on error. */
WEFT_API const char *weft_module_name(const weft_module *module);
/** The mesh that the module was distributed over; NULL: none yet. */
WEFT_API weft_mesh *weft_module_mesh(const weft_module *module);

/** Writes the tree: types, names, shapes and layouts. Waits for nothing.
 *
 *     mlp
 *       up: linear
 *         weight: f32[64, 256] [S0,S1] on 2x2 (dp, tp), used as [R,S1]
 *       down: linear
 *         ... */
WEFT_API weft_status weft_module_print(const weft_module *module, FILE *file);
/** The same into a buffer, as weft_tensor_print_text() does. */
WEFT_API weft_status weft_module_print_text(const weft_module *module, char *text, size_t size, size_t *length);

/* ---- forward --------------------------------------------------------------------------------------------- */

/** Computes the outputs. Runs in a scope of its own: all tensors but the outputs are released when it ends, gathered
 * parameters among them. An output left NULL is an error; WEFT_ERR_STATE: scopes, or regions of weft_no_grad_begin() or
 * weft_autocast_begin(), were left open (a hook before may open one that a hook after closes). After an error they are as
 * before the call. */
typedef weft_status (*weft_forward_function)(weft_module *module, int num_inputs, weft_tensor *const inputs[],
                                             int num_outputs, weft_tensor *outputs[], void *context);
/** \param context  the program's, for the function; must outlive the module */
WEFT_API weft_status weft_module_set_forward(weft_module *module, weft_forward_function forward, void *context);
/** The context of weft_module_set_forward(). */
WEFT_API void *weft_module_context(const weft_module *module);

/** Calls the hooks before, the forward function, and the hooks after. The outputs are tensors of the innermost scope;
 * all NULL on error. WEFT_ERR_STATE: the module has no forward function. */
WEFT_API weft_status weft_module_forward(weft_module *module, int num_inputs, weft_tensor *const inputs[],
                                         int num_outputs, weft_tensor *outputs[]);
/** The same for one input and one output. NULL on error. */
WEFT_API weft_tensor *weft_module_call(weft_module *module, weft_tensor *input);

/** Sees, and may replace, the inputs before a forward function, or the outputs after it. `mesh`: that of
 * weft_module_mesh(). An error ends the forward pass with it. */
typedef weft_status (*weft_module_function)(weft_module *module, weft_mesh *mesh, int num_tensors,
                                            weft_tensor *tensors[], void *context);
typedef enum weft_module_when { WEFT_BEFORE_FORWARD = 0, WEFT_AFTER_FORWARD } weft_module_when;
/** Hooks are called in the order of their addition; input and output functions, and layouts of styles, are added when the
 * module is distributed. */
WEFT_API weft_status weft_module_add_hook(weft_module *module, weft_module_when when, weft_module_function hook,
                                          void *context);

/* ---- distribution ---------------------------------------------------------------------------------------- */

/** Called for each module of the tree, the root ("") first, in the order of weft_module_modules(). Settles layouts by
 * weft_module_place(), weft_module_set_use() and weft_module_set_tensor(). An error ends the distribution with it. */
typedef weft_status (*weft_partition_function)(const char *name, weft_module *module, weft_mesh *mesh, void *context);

/**
 * Distributes all parameters and buffers over a mesh (PyTorch: torch.distributed.tensor.distribute_module). Tensors
 * that the partition function leaves, or all without one, become Replicate; empty slots stay empty; tied parameters
 * stay tied. Parameters that require a gradient still do.
 *
 * A part of the tree may have been distributed before, over this mesh or another: its layouts, where the partition
 * function leaves them, and its hooks stay.
 *
 * \param module     the root of what is distributed. WEFT_ERR_STATE: it has been distributed already
 * \param mesh       NULL: the current mesh
 * \param partition  may be NULL
 * \param input      before the forward function of `module`, not of those below it, as a hook; may be NULL
 * \param output     after it; may be NULL
 * \param context    for all three; must outlive the module
 *
 * On an error, the partition function's too, all slots have their former tensors again; the message names the module
 * and the parameter.
 */
WEFT_API weft_status weft_distribute_module(weft_module *module, weft_mesh *mesh, weft_partition_function partition,
                                            weft_module_function input, weft_module_function output, void *context);

/** For partition functions: redistributes a parameter or buffer to these placements on a mesh (NULL: Replicate; the
 * mesh: as of weft_empty()), in all slots that it is in. Does nothing to an empty slot. */
WEFT_API weft_status weft_module_place(weft_module *module, const char *path, weft_mesh *mesh,
                                       const weft_placement *placements);
/**
 * Gives memory to all parameters and buffers below a module that have no data (weft_fake()): new tensors of undefined values
 * in the layouts that they have by now (PyTorch: to_empty() after the "meta" device). A model is larger than the memory of
 * one rank if it is distributed first, and gets its values afterwards; random ones do not depend on layouts:
 *
 *     weft_module_add_parameter(layer, "weight", weft_fake(WEFT_F32, 2, shape, NULL, NULL));
 *     ...
 *     weft_parallelize(model, mesh, num_entries, plan);
 *     weft_module_materialize(model);
 *     weft_no_grad_begin();
 *     weft_normal_inplace(weft_module_parameter(model, "layers.0.weight"), 0, deviation);
 *
 * Leaves stay leaves, tied tensors tied, and uses as they are; gradient hooks are to be set afterwards. On an error all slots
 * have their former tensors again; the message names the parameter.
 */
WEFT_API weft_status weft_module_materialize(weft_module *module);
/** The layout that weft_module_use() brings a parameter or buffer to, on its mesh. NULL: its own again. A parameter's
 * gathered copies are not kept for the backward pass; with weft_set_regather(parameter, false) they are. Does nothing to an empty slot. */
WEFT_API weft_status weft_module_set_use(weft_module *module, const char *path, const weft_placement *placements);

/* ---- parallel styles ------------------------------------------------------------------------------------- */

/** Layouts along one dimension of the mesh: of a module's own parameters, and of what goes into its forward function
 * and comes out of it. y = x W, so W is [in, out]. */
typedef enum weft_parallel_style {
    /** Parameters Replicate; inputs and outputs as the entry says, else as they are. */
    WEFT_PARALLEL_LAYOUTS = 0,
    /** Column-wise: each rank has some of the outputs. Matrices Shard(-1), and vectors (biases) too. Inputs Replicate,
     * outputs as they come: Shard(-1). With tensor parallelism the first of two linear layers, queries, keys and
     * values, and a head whose vocabulary is sharded. Where several of them read one sharded tensor, an entry LAYOUTS
     * with inputs "R" for the module around them gathers it once for all. */
    WEFT_PARALLEL_COLUMNS,
    /** Row-wise: each rank has some of the inputs. Matrices Shard(-2), vectors Replicate. Inputs Shard(-1); outputs,
     * which come as addends, Replicate ("S1": on a sharded sequence). The second of two linear layers. */
    WEFT_PARALLEL_ROWS,
    /** A table: each rank has some of the rows. Parameters Shard(0). Inputs Replicate, outputs Replicate ("S1": on a
     * sharded sequence). */
    WEFT_PARALLEL_EMBEDDING,
    /** Parameters Replicate, inputs and outputs Shard(1), the sequence of [batch, sequence, width]. Norms, and what
     * else computes row by row. */
    WEFT_PARALLEL_SEQUENCE,
    /** Parameters Replicate, inputs Shard(0), the batch, where the module is the root. */
    WEFT_PARALLEL_DATA,
    /** The same with parameters that are sharded too (FSDP, ZeRO-3): on the first tensor dimension that no other entry
     * shards and that has an element for each rank. weft_module_use() gathers them, the gathered copies are released
     * when the forward function ends, and gathered again in the backward pass; gradients are reduce-scattered. */
    WEFT_PARALLEL_FULLY_SHARDED
} weft_parallel_style;

/** An entry of a plan: a style for some modules along one dimension of the mesh. */
typedef struct weft_parallel {
    /** Pattern of paths from the root: "layers.*.attention.wq". '*' stands for any characters but '.', "**" for any
     * at all ("**": all modules, the root too), '?' for one character but '.'. */
    const char *modules;
    weft_parallel_style style;
    const char *mesh_dim; /**< name of the mesh's dimension; NULL: the mesh has one */
    /** Instead of the style's, placements along this mesh dimension, of each input or output: "S1", "R,-"; '-', and
     * those beyond the last: as they are. NULL: the style's, for all that have the tensor dimension. */
    const char *inputs, *outputs;
    const char *parameters; /**< placement of all parameters instead of the style's: "S0". NULL: the style's */
} weft_parallel;

/**
 * weft_distribute_module() by a plan. For each module and mesh dimension the first entry with a matching pattern counts;
 * entries along different mesh dimensions add up, on different tensor dimensions or on one: a mesh with "dp" and "tp"
 * may fully shard over "dp" the columns that "tp" shards. Parameters are Replicate along all other mesh dimensions,
 * buffers along all; inputs and outputs keep their layout there.
 *
 * WEFT_ERR_INVALID for a pattern without a module, an unknown mesh dimension, or a text that holds no placements; the
 * message names the entry. Nothing has changed then.
 */
WEFT_API weft_status weft_parallelize(weft_module *module, weft_mesh *mesh, int num_entries,
                                      const weft_parallel plan[]);

WEFT_END_DECLS

#endif
