#include "io/hdf5_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/disk.h"
#include "comm/check_spmd.h"
#include "io/hdf5_driver.h"

/* ---- element types ------------------------------------------------------------------------------------------ */

/* A floating type of 16 bits. */
static hid_t sixteen_bits(size_t exponent_bits, size_t bias)
{
    hid_t type = H5Tcopy(H5T_IEEE_F32LE);
    size_t fraction = 15 - exponent_bits;
    H5Tset_fields(type, 15, fraction, exponent_bits, 0, fraction);
    H5Tset_size(type, 2);
    H5Tset_ebias(type, bias);
    return type;
}

/* As h5py writes them. */
static hid_t truth(void)
{
    hid_t type = H5Tenum_create(H5T_STD_I8LE);
    const signed char no = 0, yes = 1;
    H5Tenum_insert(type, "FALSE", &no);
    H5Tenum_insert(type, "TRUE", &yes);
    return type;
}

/* h5py's complex numbers. */
static hid_t pair_of(hid_t part)
{
    size_t size = H5Tget_size(part);
    hid_t type = H5Tcreate(H5T_COMPOUND, 2 * size);
    H5Tinsert(type, "r", 0, part);
    H5Tinsert(type, "i", size, part);
    return type;
}

/* To be closed. In files and in memory: weft runs on little-endian machines alone. */
static hid_t type_of(weft_dtype dtype)
{
    switch (dtype) {
    case WEFT_F64:
        return H5Tcopy(H5T_IEEE_F64LE);
    case WEFT_F32:
        return H5Tcopy(H5T_IEEE_F32LE);
    case WEFT_BF16:
        return sixteen_bits(8, 127);
    case WEFT_F16:
        return sixteen_bits(5, 15);
    case WEFT_I64:
        return H5Tcopy(H5T_STD_I64LE);
    case WEFT_I32:
        return H5Tcopy(H5T_STD_I32LE);
    case WEFT_U8:
        return H5Tcopy(H5T_STD_U8LE);
    case WEFT_BOOL:
        return truth();
    case WEFT_I8:
        return H5Tcopy(H5T_STD_I8LE);
    case WEFT_I16:
        return H5Tcopy(H5T_STD_I16LE);
    case WEFT_U16:
        return H5Tcopy(H5T_STD_U16LE);
    case WEFT_U32:
        return H5Tcopy(H5T_STD_U32LE);
    case WEFT_U64:
        return H5Tcopy(H5T_STD_U64LE);
    case WEFT_F8_E4M3:
    case WEFT_F8_E5M2:
        break; /* whoever calls this has refused them: HDF5's floating types all have infinities */
    case WEFT_C64:
        return pair_of(H5T_IEEE_F32LE);
    case WEFT_C128:
        return pair_of(H5T_IEEE_F64LE);
    }
    return -1;
}

/* A type of a file, in weft's words where it is one of weft's. */
static const char *type_text(hid_t type, char *text, size_t size)
{
    static const char *const classes[] = { "integers",    "floating numbers", "times",      "strings", "bit fields", "opaque bytes",
                                           "a compound", "references",       "an enumeration", "lists of varying length", "arrays" };
    for (int d = 0; d < WEFT_F8_E4M3; d++) {
        hid_t own = type_of((weft_dtype)d);
        bool same = H5Tequal(type, own) > 0;
        H5Tclose(own);
        if (same) {
            snprintf(text, size, "%s", weft_dtype_name((weft_dtype)d));
            return text;
        }
    }
    int class = H5Tget_class(type);
    bool number = class == H5T_INTEGER || class == H5T_FLOAT;
    snprintf(text, size, "%s%s of %zu bytes%s",
             class == H5T_INTEGER && H5Tget_sign(type) == H5T_SGN_NONE ? "unsigned " : "",
             class >= 0 && class < (int)WEFT_ARRAY_SIZE(classes) ? classes[class] : "an unknown type", H5Tget_size(type),
             number && H5Tget_order(type) == H5T_ORDER_BE ? ", the highest first" : "");
    return text;
}

/* Bits of the exponent and of the significand, the first one included, of a floating type. */
static void floating_bits(hid_t type, size_t *exponent, size_t *significand)
{
    size_t sign, at, fraction_at;
    H5Tget_fields(type, &sign, &at, exponent, &fraction_at, significand);
    *significand += 1;
}

/* Whether libhdf5 converts numbers of the file to the tensor's type, in whatever order their bytes are, and all numbers stay what they
 * are. */
static bool keeps_numbers(hid_t from, hid_t to)
{
    const H5T_class_t class = H5Tget_class(from), wanted = H5Tget_class(to);
    size_t exponent, significand, exponent_to, significand_to;
    const size_t bits = H5Tget_precision(from), bits_to = H5Tget_precision(to);
    if (class == H5T_INTEGER && wanted == H5T_INTEGER) {
        const bool has_sign = H5Tget_sign(from) != H5T_SGN_NONE, has_sign_to = H5Tget_sign(to) != H5T_SGN_NONE;
        return has_sign == has_sign_to ? bits <= bits_to : !has_sign && bits < bits_to;
    }
    if (wanted != H5T_FLOAT || (class != H5T_INTEGER && class != H5T_FLOAT)) {
        return false;
    }
    floating_bits(to, &exponent_to, &significand_to);
    if (class == H5T_INTEGER) {
        return bits <= significand_to && exponent_to >= 8;
    }
    floating_bits(from, &exponent, &significand);
    return exponent <= exponent_to && significand <= significand_to;
}

/* The same, also of h5py's complex numbers. */
static bool is_readable_as(hid_t from, hid_t to)
{
    if (H5Tget_class(from) != H5T_COMPOUND || H5Tget_class(to) != H5T_COMPOUND) {
        return keeps_numbers(from, to);
    }
    bool all = H5Tget_nmembers(from) == 2;
    for (unsigned i = 0; i < 2 && all; i++) {
        const int at = H5Tget_member_index(from, i == 0 ? "r" : "i");
        hid_t part = at < 0 ? -1 : H5Tget_member_type(from, (unsigned)at), part_to = H5Tget_member_type(to, i);
        all = part >= 0 && keeps_numbers(part, part_to);
        if (part >= 0) {
            H5Tclose(part);
        }
        H5Tclose(part_to);
    }
    return all;
}

/* ---- one file ------------------------------------------------------------------------------------------------- */

/* A file in use, and what the program has set for HDF5's errors: they go to outcomes, not to standard error. */
typedef struct use {
    const char *path;
    weft_outcome *outcome;
    weft_hdf5_disk disk;
    bool writes;
    hid_t file;
    H5E_auto2_t function;
    void *data;
} use;

/* The last message that is visited. */
static herr_t keep_message(unsigned number, const H5E_error2_t *error, void *text)
{
    (void)number;
    if (error->desc != NULL && error->desc[0] != '\0') {
        snprintf(text, 120, "%s", error->desc);
    }
    return 0;
}

/* Right after the call of libhdf5 that failed: the next one clears its stack of errors, whose innermost message says what
 * has happened. */
static bool fail(const use *u, const char *step, const char *name)
{
    char reason[120] = "libhdf5 gives no reason", process[64];
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_message, reason);
    if (u->disk.failed != NULL) {
        errno = u->disk.reason;
        weft_disk_failure(u->disk.failed, reason, sizeof(reason));
    }
    weft_process_text(weft_runtime.process, process, sizeof(process));
    weft_outcome_fail(u->outcome, WEFT_ERR_IO, "%s: %.100s: %s %.80s: %s", process, u->path, step, name, reason);
    return false;
}

/* A file that the first process has made: where this process does not see it, it must not make another one. */
static const char *open_for_writing(const char *path, int *file)
{
    int64_t size;
    const char *failed = weft_disk_open(path, file, &size);
    if (failed == NULL) {
        close(*file);
        failed = weft_disk_create(path, file);
    }
    return failed;
}

/* False: the file is not open. */
static bool begin(use *u, unsigned flags)
{
    H5Eget_auto2(H5E_DEFAULT, &u->function, &u->data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    u->writes = flags != H5F_ACC_RDONLY;
    const char *failed = flags == H5F_ACC_TRUNC    ? weft_disk_create_new(u->path, &u->disk.file)
                         : flags == H5F_ACC_RDONLY ? weft_disk_open(u->path, &u->disk.file, &u->disk.size)
                                                   : open_for_writing(u->path, &u->disk.file);
    if (failed != NULL) {
        weft_outcome_fail_disk(u->outcome, u->path, failed);
        return false;
    }
    u->disk.size = lseek(u->disk.file, 0, SEEK_END);
    u->file = weft_hdf5_open(u->path, flags, &u->disk);
    return u->file >= 0 || fail(u, flags == H5F_ACC_TRUNC ? "create" : "open", "the file");
}

/* After begin(), whatever it returned: closes the file, which is then on disk. False where any step has failed. */
static bool end(use *u, bool done)
{
    if (u->file >= 0 && H5Fclose(u->file) < 0) {
        done = fail(u, "close", "the file");
    }
    weft_hdf5_forget(&u->disk);
    if (u->disk.failed != NULL) {
        done = fail(u, u->writes ? "write" : "read", "the file");
    }
    const char *failed = u->disk.file >= 0 && u->writes ? weft_disk_finish(u->disk.file) : NULL;
    if (u->disk.file >= 0 && !u->writes) {
        close(u->disk.file);
    }
    if (failed != NULL) {
        weft_outcome_fail_disk(u->outcome, u->path, failed);
    }
    H5Eset_auto2(H5E_DEFAULT, u->function, u->data);
    return done && failed == NULL;
}

/* ---- datasets -------------------------------------------------------------------------------------------------- */

static hid_t space_of(int ndim, const int64_t sizes[])
{
    hsize_t all[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        all[d] = (hsize_t)sizes[d];
    }
    return ndim == 0 ? H5Screate(H5S_SCALAR) : H5Screate_simple(ndim, all, NULL);
}

static bool add_attribute(const use *u, hid_t dataset, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, strlen(text) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t attribute = H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool done = (attribute >= 0 && H5Awrite(attribute, type, text) >= 0) || fail(u, "create the attribute", name);
    if (attribute >= 0) {
        H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Tclose(type);
    return done;
}

bool weft_hdf5_compresses(void)
{
    return H5Zfilter_avail(H5Z_FILTER_DEFLATE) > 0;
}

/* The extent of chunks of a shard that may have `room`: a divisor, so that shards of this extent have whole chunks, unless that would
 * need twice as many chunks. */
static int64_t cut(int64_t extent, int64_t room)
{
    const int64_t divisor = weft_box_divisor(extent, room);
    return divisor > 0 ? divisor : weft_ceil_div(extent, weft_ceil_div(extent, room));
}

/* At most the first rank's shard, and `most` bytes: the first dimensions are cut first, so that a chunk is a run of memory. */
static void choose_chunk(const weft_layout *layout, int64_t most, hsize_t chunk[])
{
    const weft_shard_info shard = weft_layout_shard(layout, weft_mesh_rank_at(layout->mesh, 0));
    int64_t bytes = (int64_t)weft_dtype_size(layout->dtype);
    for (int d = layout->ndim - 1; d >= 0; d--) {
        int64_t extent = shard.count > 0 ? shard.box.extent[d] : layout->shape[d];
        chunk[d] = (hsize_t)cut(extent, weft_max_i64(1, most / bytes));
        bytes *= (int64_t)chunk[d];
    }
}

/* The properties of a new dataset; to be closed. */
static hid_t storage_of(const weft_layout *layout, const weft_hdf5_options *options)
{
    hid_t storage = H5Pcreate(H5P_DATASET_CREATE);
    hsize_t chunk[WEFT_MAX_DIMS];
    bool empty = layout->ndim == 0;
    for (int d = 0; d < layout->ndim; d++) {
        empty |= layout->shape[d] == 0;
    }
    if (options->chunk_bytes == 0 || empty) {
        H5Pset_alloc_time(storage, H5D_ALLOC_TIME_EARLY); /* processes write to their places by themselves */
        H5Pset_fill_time(storage, H5D_FILL_TIME_NEVER);
        return storage;
    }
    choose_chunk(layout, options->chunk_bytes, chunk);
    H5Pset_chunk(storage, layout->ndim, chunk);
    if (options->compression > 0) {
        H5Pset_shuffle(storage);
        H5Pset_deflate(storage, (unsigned)options->compression);
    }
    H5Pset_fletcher32(storage);
    return storage;
}

static bool create_dataset(const use *u, const char *name, const weft_layout *layout, const weft_hdf5_options *options)
{
    char text[256];
    hid_t type = type_of(layout->dtype), space = space_of(layout->ndim, layout->shape);
    hid_t links = H5Pcreate(H5P_LINK_CREATE), storage = storage_of(layout, options);
    H5Pset_create_intermediate_group(links, 1); /* of a name with '/' */
    H5Pset_char_encoding(links, H5T_CSET_UTF8);
    hid_t dataset = H5Dcreate2(u->file, name, type, space, links, storage, H5P_DEFAULT);
    bool done = (dataset >= 0 || fail(u, "create", name)) && add_attribute(u, dataset, "name", name) &&
                add_attribute(u, dataset, "dtype", weft_dtype_name(layout->dtype)) &&
                add_attribute(u, dataset, "layout", weft_layout_describe(layout, text, sizeof(text)));
    if (dataset >= 0) {
        H5Dclose(dataset);
    }
    H5Pclose(storage);
    H5Pclose(links);
    H5Sclose(space);
    H5Tclose(type);
    return done;
}

bool weft_hdf5_create(const char *path, int n, const char *const names[], const weft_layout *const layouts[],
                      const weft_hdf5_options *options, weft_outcome *outcome)
{
    use u = { .path = path, .outcome = outcome, .file = -1 };
    bool done = begin(&u, H5F_ACC_TRUNC);
    for (int i = 0; i < n && done; i++) {
        done = create_dataset(&u, names[i], layouts[i], options);
    }
    return end(&u, done);
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static bool transfer_part(const use *u, hid_t dataset, const weft_box_part *part, bool write)
{
    int ndim = part->layout->ndim;
    hsize_t offset[WEFT_MAX_DIMS], extent[WEFT_MAX_DIMS];
    for (int d = 0; d < ndim; d++) {
        offset[d] = (hsize_t)part->offset[d];
        extent[d] = (hsize_t)part->extent[d];
    }
    hid_t type = type_of(part->layout->dtype), memory = space_of(ndim, part->extent), space = H5Dget_space(dataset);
    bool done = space >= 0 &&
                (ndim == 0 || H5Sselect_hyperslab(space, H5S_SELECT_SET, offset, NULL, extent, NULL) >= 0);
    done = done && (write ? H5Dwrite(dataset, type, memory, space, H5P_DEFAULT, part->memory)
                          : H5Dread(dataset, type, memory, space, H5P_DEFAULT, part->memory)) >= 0;
    done = done || fail(u, write ? "write" : "read", part->name);
    if (space >= 0) {
        H5Sclose(space);
    }
    H5Sclose(memory);
    H5Tclose(type);
    return done;
}

void weft_hdf5_write(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome)
{
    use u = { .path = path, .outcome = outcome, .file = -1 };
    bool done = begin(&u, H5F_ACC_RDWR);
    for (int i = 0; i < num_parts && done; i++) {
        hid_t dataset = H5Dopen2(u.file, parts[i].name, H5P_DEFAULT);
        done = (dataset >= 0 || fail(&u, "open", parts[i].name)) &&
               (weft_box_part_is_empty(&parts[i]) || transfer_part(&u, dataset, &parts[i], true));
        if (dataset >= 0) {
            H5Dclose(dataset);
        }
    }
    end(&u, done);
}

/* The place of the values of a dataset in the file. False with an outcome. */
static bool find_place(const use *u, const weft_box_part *part, int64_t *place)
{
    hid_t dataset = H5Dopen2(u->file, part->name, H5P_DEFAULT);
    const haddr_t found = dataset < 0 ? HADDR_UNDEF : H5Dget_offset(dataset);
    bool done = found != HADDR_UNDEF || fail(u, "find the values of", part->name);
    *place = (int64_t)found;
    if (dataset >= 0) {
        H5Dclose(dataset);
    }
    return done;
}

/* Writes a box to the place of its dataset, by runs of whole dimensions. NULL, or the step that failed. */
static const char *write_runs(int file, int64_t place, const weft_box_part *part)
{
    const int ndim = part->layout->ndim;
    const int64_t *shape = part->layout->shape, zero[WEFT_MAX_DIMS] = { 0 };
    int64_t at[WEFT_MAX_DIMS] = { 0 };
    int outer;
    const int64_t element = (int64_t)weft_dtype_size(part->layout->dtype), run = element * weft_box_run(part->layout, part->extent, &outer);
    const char *bytes = part->memory, *failed;
    do {
        int64_t first = 0;
        for (int d = 0; d < ndim; d++) {
            first = first * shape[d] + part->offset[d] + (d < outer ? at[d] : 0);
        }
        failed = weft_disk_write(file, bytes, run, place + first * element);
        bytes += run;
    } while (failed == NULL && weft_box_step(outer, zero, part->extent, at));
    return failed;
}

void weft_hdf5_write_places(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome)
{
    use u = { .path = path, .outcome = outcome, .file = -1 };
    int64_t *places = calloc((size_t)num_parts + 1, sizeof(*places));
    if (places == NULL) {
        weft_outcome_fail(outcome, WEFT_ERR_NOMEM, "no memory for the places of %d parts", num_parts);
        return;
    }
    bool done = begin(&u, H5F_ACC_RDONLY);
    for (int i = 0; i < num_parts && done; i++) {
        done = weft_box_part_is_empty(&parts[i]) || find_place(&u, &parts[i], &places[i]);
    }
    done = end(&u, done);
    int file = -1;
    const char *failed = done ? open_for_writing(path, &file) : NULL;
    for (int i = 0; i < num_parts && done && failed == NULL; i++) {
        failed = weft_box_part_is_empty(&parts[i]) ? NULL : write_runs(file, places[i], &parts[i]);
    }
    const int reason = errno;
    const char *unfinished = file >= 0 ? weft_disk_finish(file) : NULL;
    if (failed != NULL) {
        errno = reason;
    }
    failed = failed == NULL ? unfinished : failed;
    if (failed != NULL) {
        weft_outcome_fail_disk(outcome, path, failed);
    }
    free(places);
}

static bool check_dataset(hid_t dataset, const weft_box_part *part, weft_outcome *outcome)
{
    const weft_layout *layout = part->layout;
    hsize_t sizes[H5S_MAX_RANK];
    int64_t found[H5S_MAX_RANK];
    hid_t type = H5Dget_type(dataset), wanted = type_of(layout->dtype), space = H5Dget_space(dataset);
    bool same_type = H5Tequal(type, wanted) > 0 || is_readable_as(type, wanted);
    int ndim = H5Sget_simple_extent_dims(space, sizes, NULL);
    for (int d = 0; d < ndim; d++) {
        found[d] = (int64_t)sizes[d];
    }
    bool same_shape = ndim == layout->ndim && memcmp(found, layout->shape, (size_t)ndim * sizeof(found[0])) == 0;
    char texts[2][100];
    if (!same_type) {
        weft_outcome_fail(outcome, WEFT_ERR_DTYPE, "the tensor is %s, and \"%.100s\" is %s in the file",
                          weft_dtype_name(layout->dtype), part->name, type_text(type, texts[0], sizeof(texts[0])));
    } else if (!same_shape) {
        weft_text shapes[] = { weft_text_in(texts[0], sizeof(texts[0])), weft_text_in(texts[1], sizeof(texts[1])) };
        weft_text_add_sizes(&shapes[0], layout->ndim, layout->shape, ", ");
        weft_text_add_sizes(&shapes[1], ndim, found, ", ");
        weft_outcome_fail(outcome, WEFT_ERR_SHAPE, "the tensor has the shape [%s], and \"%.100s\" has [%s] in the file",
                          texts[0], part->name, texts[1]);
    }
    H5Sclose(space);
    H5Tclose(wanted);
    H5Tclose(type);
    return same_type && same_shape;
}

static bool read_part(const use *u, const weft_box_part *part)
{
    hid_t dataset = H5Dopen2(u->file, part->name, H5P_DEFAULT);
    if (dataset < 0) {
        if (u->disk.failed != NULL) {
            return fail(u, "open", part->name);
        }
        char reason[120] = "libhdf5 gives no reason"; /* it may be there, in a form that this libhdf5 does not know */
        H5Ewalk2(H5E_DEFAULT, H5E_WALK_DOWNWARD, keep_message, reason);
        weft_outcome_fail(u->outcome, WEFT_ERR_INVALID, "%.100s has no dataset \"%.100s\": %s", u->path, part->name, reason);
        return false;
    }
    bool done = check_dataset(dataset, part, u->outcome) &&
                (weft_box_part_is_empty(part) || transfer_part(u, dataset, part, false));
    H5Dclose(dataset);
    return done;
}

void weft_hdf5_read(const char *path, int num_parts, const weft_box_part parts[], weft_outcome *outcome)
{
    use u = { .path = path, .outcome = outcome, .file = -1 };
    bool done = begin(&u, H5F_ACC_RDONLY);
    for (int i = 0; i < num_parts && done; i++) {
        done = read_part(&u, &parts[i]);
    }
    end(&u, done);
}
