/** \file
 * Checkpoints: tensors in one file, in the safetensors format, which PyTorch, JAX and others read.
 *
 * The file does not depend on meshes, layouts and processes: a run on 2 x 2 ranks saves, one of 3 ranks or of
 * one process loads. Each process writes and reads its own rows alone, at their place in the file: all
 * processes must see one file system. docs/checkpoints.md shows the format.
 *
 *     const char *keys[] = { "step" }, *values[] = { "1200" };
 *     weft_checkpoint_options options = { .num_entries = 1, .keys = keys, .values = values, .random_states = true };
 *     weft_checkpoint_saving *saving = weft_checkpoint_save_async("run.safetensors", n, names, tensors, &options);
 *     ... the next steps ...
 *     weft_checkpoint_wait(saving);
 *
 * And back, in another run. Optimisers' states are tensors like others ("adam.mean.layers.0.w"):
 *
 *     weft_checkpoint_file *file = weft_checkpoint_open("run.safetensors");
 *     const char *step = weft_checkpoint_metadata(file, "step");
 *     first_step = step == NULL ? 0 : atoi(step);
 *     weft_checkpoint_random_states(file);
 *     weft_checkpoint_close(file);
 *     weft_checkpoint_load("run.safetensors", n, names, tensors);
 *
 * A path names either the former checkpoint, whole, or the new one, whole, whatever process is killed at
 * whatever moment: the new one is written beside it (PATH.tmp) and takes its place once all of it is on disk
 * (fsync() by all processes, then rename(), then fsync() of the folder). A killed run leaves PATH.tmp behind,
 * which the next save to PATH writes over. Two runs must not save to one path at the same time.
 *
 * A save replaces a file at PATH, or a symbolic link to one (not what it leads to); where anything else stands at PATH (a pipe,
 * a device), or a link or another name of some file at PATH.tmp, nothing is written: WEFT_ERR_IO. Only regular files are
 * read, also through links.
 *
 * Checksums (CRC-32C) of the header and of each tensor are in the file's metadata: a damaged file is refused.
 * Files of other programs have none: of these only the structure is checked. */
#ifndef WEFT_CHECKPOINT_H
#define WEFT_CHECKPOINT_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/* ---- saving ---------------------------------------------------------------------------------------------- */

/**
 * BLOCKS until the file is on disk. Every process calls it, with the same arguments; the status is the same on
 * all, and so is the message. Tensors may have any layout, Partial included (it is reduced), on any meshes.
 *
 * \param path     of the file; a file of this name is replaced
 *
 * \param names    n distinct names, UTF-8, not empty, not "__metadata__"
 *
 * \param tensors  n tensors; one may stand under several names, and is then saved as often
 *
 * \return WEFT_ERR_INVALID for a wrong argument, WEFT_ERR_IO where a file cannot be written (the message names
 *         the process and the reason), WEFT_ERR_STATE for a tensor without data, while weft_local_acquire()
 *         holds a shard that this call would wait for, and while a save to this path is under way, the status
 *         of a former call whose tasks have failed, WEFT_ERR_UNSUPPORTED in a fake world. After an error the
 *         former file is unchanged. */
WEFT_API weft_status weft_checkpoint_save(const char *path, int n, const char *const names[],
                                          weft_tensor *const tensors[]);

/** Zero-initialise it and set what matters. */
typedef struct weft_checkpoint_options {
    int num_entries;           /**< of `keys` and `values` */
    const char *const *keys;   /**< distinct texts, UTF-8, that do not begin with "weft." */
    const char *const *values; /**< texts, UTF-8: steps, options of the program, ... */
    bool random_states;        /**< save all states of random numbers, for weft_checkpoint_random_states() */
    size_t size;               /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
} weft_checkpoint_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_checkpoint_options_init(weft_checkpoint_options *options)
{
    const weft_checkpoint_options all = { 0, NULL, NULL, false, sizeof(all) };
    *options = all;
}

/** weft_checkpoint_save() with metadata. BLOCKS. \param options  NULL: none */
WEFT_API weft_status weft_checkpoint_save_ex(const char *path, int n, const char *const names[],
                                             weft_tensor *const tensors[], const weft_checkpoint_options *options);

/** A save that is under way: a handle. */
typedef struct weft_checkpoint_saving weft_checkpoint_saving;

/**
 * The same without waiting: the values are those of this moment of the program, whatever it does to the tensors
 * afterwards. They share the tensors' memory; a tensor that is written meanwhile gets other memory (copy on
 * write), and one in the program's own memory is copied at once. A thread of each process writes its rows as soon
 * as the tasks that compute them have ended. weft_wait() does not wait for it, weft_finalize() does. BLOCKS while
 * an earlier save is under way.
 *
 * \return NULL on error, as weft_checkpoint_save(); errors of writing are weft_checkpoint_wait()'s. */
WEFT_API weft_checkpoint_saving *weft_checkpoint_save_async(const char *path, int n, const char *const names[],
                                                            weft_tensor *const tensors[],
                                                            const weft_checkpoint_options *options);
/** Whether it has ended on this process, well or not: does not wait. Processes may differ in it. Memory that only
 * the save has kept is freed then. The handle remains. */
WEFT_API weft_status weft_checkpoint_test(weft_checkpoint_saving *saving, bool *ended);
/** BLOCKS until it has ended; returns its status, as weft_checkpoint_save(), and ends the handle. Every process calls
 * it. WEFT_ERR_STATE, and the handle remains, while tasks wait for a shard that weft_local_acquire() holds. */
WEFT_API weft_status weft_checkpoint_wait(weft_checkpoint_saving *saving);

/* ---- loading --------------------------------------------------------------------------------------------- */

/**
 * BLOCKS: values for tensors that exist, in any layout without Partial, on any meshes. Every process calls it,
 * with the same arguments; the status is the same on all. Tensors of the file that no name asks for are not read.
 *
 * All is read and checked before the first tensor changes: it needs memory for one more copy of the tensors,
 * spread over the ranks of their meshes.
 *
 * \param names  n names of tensors in the file; one may occur several times
 *
 * \return WEFT_ERR_INVALID for a wrong argument and for a name that the file does not have, WEFT_ERR_SHAPE,
 *         WEFT_ERR_DTYPE where the file's tensor is another one, WEFT_ERR_LAYOUT for a Partial tensor, WEFT_ERR_IO for a
 *         file that cannot be read, is no safetensors file or is damaged (the message names the tensor and its
 *         bytes), WEFT_ERR_UNSUPPORTED in a fake world, WEFT_ERR_STATE as weft_checkpoint_save(). After an error
 *         no tensor has changed. */
WEFT_API weft_status weft_checkpoint_load(const char *path, int n, const char *const names[],
                                          weft_tensor *const tensors[]);

/* ---- contents -------------------------------------------------------------------------------------------- */

/** The header of a file: names, types, shapes and metadata. */
typedef struct weft_checkpoint_file weft_checkpoint_file;

/** Reads and checks the header. Local: one process may call it. NULL on error: WEFT_ERR_INVALID, WEFT_ERR_IO. The
 * file's texts are valid until weft_checkpoint_close(), or weft_finalize(). \{ */
WEFT_API weft_checkpoint_file *weft_checkpoint_open(const char *path);
WEFT_API weft_status weft_checkpoint_close(weft_checkpoint_file *file);
/** \} */

/** A tensor of a file. */
typedef struct weft_checkpoint_entry {
    const char *name;
    const char *file_dtype; /**< as the file says: "F32", "I16", ... */
    bool is_readable;       /**< weft has such a type, and so many dimensions: the next three are set */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t offset, bytes; /**< place in the file */
} weft_checkpoint_entry;

/** Number of tensors; 0 on error. */
WEFT_API int weft_checkpoint_num_tensors(const weft_checkpoint_file *file);
/** 0 <= index < weft_checkpoint_num_tensors(), in the order of the header. WEFT_ERR_INVALID. */
WEFT_API weft_status weft_checkpoint_tensor(const weft_checkpoint_file *file, int index, weft_checkpoint_entry *entry);
/** The index of the tensor of a name; -1 where there is none, without an error. */
WEFT_API int weft_checkpoint_index(const weft_checkpoint_file *file, const char *name);

/** The value of a key of the metadata; NULL where there is none, without an error. */
WEFT_API const char *weft_checkpoint_metadata(const weft_checkpoint_file *file, const char *key);
/** Number of keys, without those of the checksums; and each, for 0 <= index. WEFT_ERR_INVALID. \{ */
WEFT_API int weft_checkpoint_num_keys(const weft_checkpoint_file *file);
WEFT_API weft_status weft_checkpoint_key(const weft_checkpoint_file *file, int index, const char **key,
                                         const char **value);
/** \} */

/** Sets all states of random numbers (<weft/random.h>) that were saved with weft_checkpoint_options.random_states,
 * the current one too; creates those that do not exist. Every process calls it. WEFT_ERR_INVALID where the file
 * has none. */
WEFT_API weft_status weft_checkpoint_random_states(const weft_checkpoint_file *file);

/* ---- hooks: for writers of other formats ------------------------------------------------------------------- */

/** A box of a tensor, which one rank has. */
typedef struct weft_checkpoint_chunk {
    int rank;
    int local_rank;                /**< for weft_local_acquire(); -1: another process hosts the rank */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< of the box, which is row-major and contiguous in memory */
    int64_t bytes;
} weft_checkpoint_chunk;

/** The parts of a tensor that this process has to write: those of all processes together have each element once, of
 * replicas the first one. Local: they follow from the layout. The first `max` of them go to `items`; returns how many
 * there are, at most weft_local_ranks(); -1 on error: WEFT_ERR_LAYOUT for a Partial tensor (redistribute it first),
 * WEFT_ERR_INVALID. PyTorch: __create_write_items__.
 *
 *     weft_checkpoint_chunk items[MAX_RANKS];
 *     int count = weft_tensor_write_items(tensor, MAX_RANKS, items);
 *     for (int i = 0; i < count; i++) {
 *         const void *values = weft_local_acquire(tensor, items[i].local_rank, WEFT_READ);
 *         ... write the box items[i].offset, items[i].extent ...
 *         weft_local_release(tensor, items[i].local_rank);
 *     } */
WEFT_API int weft_tensor_write_items(const weft_tensor *tensor, int max, weft_checkpoint_chunk items[]);
/** The parts of a tensor that this process has: the shards of its ranks, replicas once; a reader fills those, and
 * their replicas. As weft_tensor_write_items(). PyTorch: __create_chunk_list__. */
WEFT_API int weft_tensor_chunks(const weft_tensor *tensor, int max, weft_checkpoint_chunk chunks[]);
/** The shard that has the element at a global index (one number per dimension): a hosted one where there is one, else
 * that of the first rank. WEFT_ERR_INVALID for an index outside, WEFT_ERR_LAYOUT for a Partial tensor. PyTorch:
 * __get_tensor_shard__. */
WEFT_API weft_status weft_tensor_shard_at(const weft_tensor *tensor, const int64_t index[],
                                          weft_checkpoint_chunk *chunk);

/* ---- HDF5 -------------------------------------------------------------------------------------------------- */

/** BLOCKS: the same as weft_checkpoint_save() in an HDF5 file, for programs of HPC: one dataset for each tensor, of
 * its shape and type (WEFT_F16, WEFT_BF16: floating types of 16 bits; WEFT_BOOL: the enumeration FALSE, TRUE of
 * h5py); a name with '/' stands in groups. Attributes: "name", "dtype", "layout" at the time of saving. Processes
 * write in turn: libhdf5 need not be parallel. WEFT_ERR_UNSUPPORTED where weft was built without libhdf5. */
WEFT_API weft_status weft_hdf5_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);
/** BLOCKS: the reverse, as weft_checkpoint_load(); the file may be another program's. Each process reads the shards
 * of its ranks. */
WEFT_API weft_status weft_hdf5_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);

WEFT_END_DECLS

#endif
