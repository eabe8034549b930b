/** \file
 * Checkpoints: tensors in one file, in the safetensors format, which PyTorch, JAX and others read.
 *
 * The file does not depend on meshes, layouts or processes. For example, a run on 2 x 2 ranks can save it, and a run
 * on 3 ranks or one process can load it. Each process writes and reads only its own rows, at their positions in the
 * file, so all processes must see the same file system. docs/checkpoints.md shows the format.
 *
 *     const char *keys[] = { "step" }, *values[] = { "1200" };
 *     weft_checkpoint_options options = { .num_entries = 1, .keys = keys, .values = values, .random_states = true };
 *     weft_checkpoint_saving *saving = weft_checkpoint_save_async("run.safetensors", n, names, tensors, &options);
 *     ... the next steps ...
 *     weft_checkpoint_wait(saving);
 *
 * And back, in another run. The states of optimisers are tensors like others ("adam.mean.layers.0.w"):
 *
 *     weft_checkpoint_file *file = weft_checkpoint_open("run.safetensors");
 *     const char *step = weft_checkpoint_metadata(file, "step");
 *     first_step = step == NULL ? 0 : atoi(step);
 *     weft_checkpoint_random_states(file);
 *     weft_checkpoint_close(file);
 *     weft_checkpoint_load("run.safetensors", n, names, tensors);
 *
 * The file at a path is always a whole checkpoint, the old one or the new one, no matter which process is killed and
 * when. weft writes the new one beside it (PATH.tmp) and renames it once all of it is on disk (fsync() by all
 * processes, then rename(), then fsync() of the folder). A killed run leaves PATH.tmp, and the next save to PATH
 * overwrites it. Two runs must not save to the same path at the same time.
 *
 * A save replaces a file at PATH, or a symbolic link to one (not the file that the link points to). Nothing is
 * written, and the status is WEFT_ERR_IO, if PATH is anything else (a pipe, a device), or if PATH.tmp is a link or
 * another name of some file. If an index stands at PATH and cannot be read, the status is WEFT_ERR_IO; one that is damaged is replaced.
 * Only regular files are read, also through links.
 *
 * **Several files.** If PATH ends in ".index.json", it is the index of a checkpoint in several files, as Hugging Face has it:
 * saving to "model.safetensors.index.json" writes "model-00001-of-00003.safetensors" and so on beside it, each with at most
 * weft_checkpoint_options.max_file_bytes of tensors, or one tensor. Loading opens the files that have the tensors it names.
 * The index is replaced last, so PATH is always a whole checkpoint. A save gives its files names that nothing in the folder has
 * ("model-1-00001-of-00003.safetensors", if the first ones are taken), so that several indexes may lie in one folder. Then it removes
 * the old index's files whose names begin with "model-". The metadata are in the first file.
 * A killed run leaves PATH-1.tmp and so on, which the next save to PATH overwrites or removes, and perhaps files with names: each says in
 * its metadata which index it belongs to, and the next save removes those that PATH does not name. Do not give such names to files
 * of your own.
 *
 * The file's metadata has checksums (CRC-32C) of the header and of each tensor. If they do not match, the load fails.
 * Files of other programs have no checksums, so weft checks only their structure. */
#ifndef WEFT_CHECKPOINT_H
#define WEFT_CHECKPOINT_H

#include <weft/tensor.h>

WEFT_BEGIN_DECLS

/* ---- saving ---------------------------------------------------------------------------------------------- */

/** Zero-initialise it and set the fields you need. */
typedef struct weft_checkpoint_options {
    size_t size; /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int num_entries;           /**< number of entries of `keys` and `values` */
    const char *const *keys;   /**< distinct strings, UTF-8, that do not begin with "weft." */
    const char *const *values; /**< strings, UTF-8: steps, options of the program, ... */
    bool random_states;        /**< save all random states, for weft_checkpoint_random_states() */
    int64_t max_file_bytes;    /**< of several files: most bytes of tensors in one; 0: 5,000,000,000 */
} weft_checkpoint_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_checkpoint_options_init(weft_checkpoint_options *options)
{
    const weft_checkpoint_options all = { sizeof(all), 0, NULL, NULL, false, 0 };
    *options = all;
}

/**
 * Saves tensors to a file. BLOCKS until the file is on disk. Every process calls it with the same arguments, and all
 * get the same status and message. Tensors may have any layout, on any meshes; Partial is reduced.
 *
 * \param path     path of the file, or of an index (".index.json", whose name is UTF-8, and n > 0); an existing file is replaced
 * \param names    n distinct names, UTF-8, not empty, not "__metadata__"
 * \param tensors  n tensors; if one has several names, it is saved once for each
 * \param options  metadata; NULL: none
 *
 * \return WEFT_ERR_INVALID if an argument is wrong; WEFT_ERR_IO if a file cannot be written (the message names the
 *         process and the reason); WEFT_ERR_STATE if a tensor has no data, if the program has acquired a shard
 *         (weft_local_acquire()) that this call would wait for, or if a save to this path is under way; the status of
 *         an earlier call whose tasks failed; WEFT_ERR_UNSUPPORTED in a fake world. After an error the old file is
 *         unchanged, unless the message says "renamed": the new file is in its place, and the file system could not confirm
 *         that this outlasts a crash of the machine.
 *
 * For example, with the options of the file comment above:
 *
 *     weft_checkpoint_save("run.safetensors", n, names, tensors, &options);
 */
WEFT_API weft_status weft_checkpoint_save(const char *path, int n, const char *const names[],
                                          weft_tensor *const tensors[], const weft_checkpoint_options *options);

/** A save that is under way: an opaque handle. */
typedef struct weft_checkpoint_saving weft_checkpoint_saving;

/**
 * weft_checkpoint_save() without waiting. It saves the values that the tensors have at this point of the program,
 * whatever you do to them afterwards. The save shares the tensors' memory. If you write to a tensor meanwhile, it
 * gets new memory (copy on write); a tensor in your own memory is copied at once. A thread of each process writes its
 * rows as soon as the tasks that compute them have ended. weft_wait() does not wait for the save, but weft_finalize()
 * does. BLOCKS if an earlier save is under way.
 *
 * \return NULL on error, as weft_checkpoint_save(). weft_checkpoint_wait() reports errors of writing.
 */
WEFT_API weft_checkpoint_saving *weft_checkpoint_save_async(const char *path, int n, const char *const names[],
                                                            weft_tensor *const tensors[],
                                                            const weft_checkpoint_options *options);
/** Tests whether the save has ended on this process, successfully or not. It does not wait. The result may differ
 * between processes. If the save has ended, memory that only the save kept is freed. The handle remains valid. */
WEFT_API weft_status weft_checkpoint_test(weft_checkpoint_saving *saving, bool *ended);
/** BLOCKS until the save has ended. Returns its status, as weft_checkpoint_save(), and invalidates the handle. Every
 * process calls it. WEFT_ERR_STATE if tasks wait for a shard that the program has acquired (weft_local_acquire());
 * then the handle remains valid. */
WEFT_API weft_status weft_checkpoint_wait(weft_checkpoint_saving *saving);

/* ---- loading --------------------------------------------------------------------------------------------- */

/**
 * Loads values into existing tensors. BLOCKS. The tensors may have any layout except Partial, on any meshes. Every
 * process calls it with the same arguments, and all get the same status. Tensors of the file that you do not name are
 * not read.
 *
 * The call reads and checks everything before it changes the first tensor. So it needs memory for one more copy of
 * the tensors, spread over the ranks of their meshes.
 *
 * \param names  n names of tensors in the file; a name may occur several times
 *
 * \return WEFT_ERR_INVALID if an argument is wrong or the file does not have a name; WEFT_ERR_SHAPE or WEFT_ERR_DTYPE
 *         if the file's tensor has another shape or type; WEFT_ERR_LAYOUT if a tensor is Partial; WEFT_ERR_IO if the
 *         file cannot be read, is not a safetensors file or is damaged (the message names the tensor and its bytes);
 *         WEFT_ERR_UNSUPPORTED in a fake world; WEFT_ERR_STATE as in weft_checkpoint_save(). After an error no tensor
 *         has changed.
 */
WEFT_API weft_status weft_checkpoint_load(const char *path, int n, const char *const names[],
                                          weft_tensor *const tensors[]);

/* ---- contents -------------------------------------------------------------------------------------------- */

/** The contents of a file, or of all files of an index: names, types, shapes and metadata. */
typedef struct weft_checkpoint_file weft_checkpoint_file;

/** Read and check the header of a file, or of each file of an index, and close it. Local: a single process may call them. NULL on
 * error: WEFT_ERR_INVALID, WEFT_ERR_IO, WEFT_ERR_NOMEM. The strings of the file are valid until weft_checkpoint_close() or weft_finalize().
 * \{ */
WEFT_API weft_checkpoint_file *weft_checkpoint_open(const char *path);
WEFT_API weft_status weft_checkpoint_close(weft_checkpoint_file *file);
/** \} */

/** A tensor of a file. */
typedef struct weft_checkpoint_entry {
    const char *name;
    const char *file_dtype; /**< type as written in the file: "F32", "I16", ... */
    bool is_readable;       /**< weft has this type and supports this many dimensions; the next three fields are set */
    weft_dtype dtype;
    int ndim;
    int64_t shape[WEFT_MAX_DIMS];
    int64_t offset, bytes; /**< position in the file */
} weft_checkpoint_entry;

/** Returns the number of tensors; 0 on error. */
WEFT_API int weft_checkpoint_num_tensors(const weft_checkpoint_file *file);
/** Describes tensor `index`, 0 <= index < weft_checkpoint_num_tensors(), in the order of the header.
 * WEFT_ERR_INVALID. */
WEFT_API weft_status weft_checkpoint_tensor(const weft_checkpoint_file *file, int index, weft_checkpoint_entry *entry);
/** Returns the path of the file that has tensor `index`, in which weft_checkpoint_entry.offset counts: the path that was opened,
 * or one that its index names. NULL on error: WEFT_ERR_INVALID. */
WEFT_API const char *weft_checkpoint_tensor_file(const weft_checkpoint_file *file, int index);
/** Returns the index of the tensor with this name; -1 without an error if there is none. */
WEFT_API int weft_checkpoint_index(const weft_checkpoint_file *file, const char *name);

/** Returns the value of a key of the metadata; NULL without an error if there is none. */
WEFT_API const char *weft_checkpoint_metadata(const weft_checkpoint_file *file, const char *key);
/** Return the number of keys, without those of the checksums, and the key and value at an index from 0 on.
 * WEFT_ERR_INVALID. \{ */
WEFT_API int weft_checkpoint_num_keys(const weft_checkpoint_file *file);
WEFT_API weft_status weft_checkpoint_key(const weft_checkpoint_file *file, int index, const char **key,
                                         const char **value);
/** \} */

/** Restores all random states (<weft/random.h>) that were saved with weft_checkpoint_options.random_states, and which
 * one is current. States that do not exist are created. Every process calls it. WEFT_ERR_INVALID if the file has no
 * random states. */
WEFT_API weft_status weft_checkpoint_random_states(const weft_checkpoint_file *file);

/* ---- hooks: for writers of other formats ------------------------------------------------------------------- */

/** A box of a tensor, stored on one rank. */
typedef struct weft_checkpoint_chunk {
    int rank;
    int local_rank;                /**< for weft_local_acquire(); -1 if another process hosts the rank */
    int64_t offset[WEFT_MAX_DIMS]; /**< global index of the first element */
    int64_t extent[WEFT_MAX_DIMS]; /**< extent of the box, which is row-major and contiguous in memory */
    int64_t bytes;
} weft_checkpoint_chunk;

/** Lists the parts of a tensor that this process has to write. Over all processes the parts contain each element once;
 * of replicas the first one is written. Local: the list follows from the layout. Writes the first `max` parts to
 * `items`. Returns how many there are, at most weft_local_ranks(). Returns -1 on error: WEFT_ERR_LAYOUT if the tensor
 * is Partial (redistribute it first), WEFT_ERR_INVALID. PyTorch: __create_write_items__.
 *
 *     weft_checkpoint_chunk items[MAX_RANKS];
 *     int count = weft_tensor_write_items(tensor, MAX_RANKS, items);
 *     for (int i = 0; i < count; i++) {
 *         const void *values = weft_local_acquire(tensor, items[i].local_rank, WEFT_READ);
 *         ... write the box items[i].offset, items[i].extent ...
 *         weft_local_release(tensor, items[i].local_rank);
 *     } */
WEFT_API int weft_tensor_write_items(const weft_tensor *tensor, int max, weft_checkpoint_chunk items[]);
/** Lists the parts of a tensor that this process has: the shards of its ranks, with each replica listed once. A reader
 * fills these parts and their replicas. Arguments and result as for weft_tensor_write_items(). PyTorch:
 * __create_chunk_list__. */
WEFT_API int weft_tensor_chunks(const weft_tensor *tensor, int max, weft_checkpoint_chunk chunks[]);
/** Finds the shard that has the element at a global index (one number per dimension). If a hosted rank has the
 * element, it is that rank's shard, otherwise that of the first rank which has it. WEFT_ERR_INVALID if the index is
 * out of range, WEFT_ERR_LAYOUT if the tensor is Partial. PyTorch: __get_tensor_shard__. */
WEFT_API weft_status weft_tensor_shard_at(const weft_tensor *tensor, const int64_t index[],
                                          weft_checkpoint_chunk *chunk);

/* ---- HDF5 -------------------------------------------------------------------------------------------------- */

/** weft_checkpoint_save() to an HDF5 file, for HPC programs. BLOCKS. Each tensor becomes one dataset of its shape and
 * type. WEFT_F16 and WEFT_BF16 become floating types of 16 bits, WEFT_BOOL the enumeration FALSE, TRUE of h5py; floating types of 8
 * bits are WEFT_ERR_DTYPE. A
 * name with '/' is put into groups. Each dataset has the attributes "name", "dtype" and "layout" (at the time of
 * saving). All processes write at once, each its values at their places in the file, so libhdf5 need not be parallel. A tensor whose
 * shards would be many short runs in the file (columns) is redistributed to rows first, if it has rows for all ranks.
 * WEFT_ERR_UNSUPPORTED if weft was built without libhdf5. */
WEFT_API weft_status weft_hdf5_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);
/** How weft_hdf5_save_ex() stores datasets. Zero-initialise it and set the fields you need. */
typedef struct weft_hdf5_options {
    size_t size;         /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    int compression;     /**< gzip's level, 1 (fast) to 9 (small); 0: none */
    int64_t chunk_bytes; /**< most bytes of a chunk before compression, at least 16; 0: 1 MiB with compression, and no chunks without */
} weft_hdf5_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_hdf5_options_init(weft_hdf5_options *options)
{
    const weft_hdf5_options all = { sizeof(all), 0, 0 };
    *options = all;
}

/** weft_hdf5_save() with options; NULL: none. BLOCKS. Datasets in chunks have checksums (Fletcher's, of HDF5), so that a load
 * notices damage; bytes are sorted by significance before compression (HDF5's shuffle). A chunk is at most the shard of the first rank,
 * and divides its extents if that does not need twice as many chunks. Where shards of one size consist of whole chunks, no chunk is
 * written twice. Processes write chunks one after another, because libhdf5 decides where they are. Tensors without dimensions or elements are stored
 * as by weft_hdf5_save(). WEFT_ERR_UNSUPPORTED also if libhdf5 was built without gzip. */
WEFT_API weft_status weft_hdf5_save_ex(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                                       const weft_hdf5_options *options);
/** weft_checkpoint_load() from an HDF5 file, which may come from another program. BLOCKS. Each process reads the
 * shards of its ranks. The dataset's numbers may have any order of bytes, and another type than the tensor's if that has all of
 * them: narrower integers or floating numbers, or integers that the floating type holds without rounding. Other types are
 * WEFT_ERR_DTYPE. */
WEFT_API weft_status weft_hdf5_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);

/* ---- Zarr -------------------------------------------------------------------------------------------------- */

/** How weft_zarr_save() stores arrays. Zero-initialise it and set the fields you need. */
typedef struct weft_zarr_options {
    size_t size;         /**< 0, or sizeof of this struct ("Structs of options" in <weft/base.h>) */
    const char *codec;   /**< "zstd" or "gzip"; NULL: no compression */
    int level;           /**< of the codec: from 1 (fast) to 9 for gzip, to 22 for zstd; 0: 3 */
    int64_t chunk_bytes; /**< most bytes of a chunk before compression, at least 16; 0: 16 MiB */
} weft_zarr_options;

/** Sets all fields to 0, and `size`. */
static inline void weft_zarr_options_init(weft_zarr_options *options)
{
    const weft_zarr_options all = { sizeof(all), NULL, 0, 0 };
    *options = all;
}

/** weft_checkpoint_save() to a Zarr store, version 3: a folder, in which each tensor is an array of chunks in files of their own.
 * Processes write beside each other, each the chunks of its own shards. BLOCKS. Chunks have checksums (crc32c). Their borders are borders
 * of shards: shards of one size are cut into equal chunks of at most chunk_bytes. A tensor whose shards have no such chunks (sizes
 * without a common divisor) is first redistributed to equal rows. Partial is reduced. Names with '/' are put into groups. The arrays
 * have the attributes "name", "dtype" and "layout", and dimensions named NAME.dim0, NAME.dim1, ... (NAME: after the last '/'), by which xarray reads them.
 *
 * The store is written to PATH.tmp, and takes the place of an old one when all of it is on disk: at once, or by two renames where the file
 * system cannot exchange names (NFS). After a crash between these the old store is at PATH.tmp.old, and nothing at PATH; the next
 * save brings it back. Only an old store that weft_zarr_save() has written is replaced, with all that is in the folder; anything else
 * at PATH, PATH.tmp or PATH.tmp.old is WEFT_ERR_IO.
 *
 * \param names    n distinct names, UTF-8; no part between '/' is empty, ".", "..", "zarr.json", begins with "__" or has a
 *                 backslash, and no name is a group of another
 * \param options  NULL: none
 *
 * \return as weft_checkpoint_save(); WEFT_ERR_DTYPE for floating types of 8 bits; WEFT_ERR_UNSUPPORTED if weft was built without the
 *         codec's library. After an error the old store is unchanged, unless the message says "renamed". */
WEFT_API weft_status weft_zarr_save(const char *path, int n, const char *const names[], weft_tensor *const tensors[],
                                    const weft_zarr_options *options);
/** weft_checkpoint_load() from a Zarr store, version 3, on a file system, which may come from another program. BLOCKS. A name is the
 * path of an array in the store; "": the store is an array itself. Each process reads only the chunks that its shards need, and chunks
 * that are missing have the fill value. Types must be the same. It reads regular grids, default keys and those of version 2, and the
 * codecs bytes (both orders), transpose, gzip, zstd, crc32c and sharding_indexed; WEFT_ERR_UNSUPPORTED for others. Damaged metadata
 * and chunks are WEFT_ERR_IO, and no tensor has changed. */
WEFT_API weft_status weft_zarr_load(const char *path, int n, const char *const names[], weft_tensor *const tensors[]);

WEFT_END_DECLS

#endif
