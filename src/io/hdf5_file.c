#include "io/hdf5_file.h"

#include <hdf5.h>

#include <string.h>

#include "comm/check_spmd.h"

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
    }
    return -1;
}

/* ---- failures ------------------------------------------------------------------------------------------------- */

/* The innermost message of HDF5's stack of errors. */
static herr_t keep_message(unsigned number, const H5E_error2_t *error, void *text)
{
    (void)number;
    if (error->desc != NULL) {
        snprintf(text, 120, "%s", error->desc);
    }
    return 0;
}

static bool fail(weft_outcome *outcome, const char *path, const char *step, const char *name)
{
    char reason[120] = "no reason given", process[64];
    H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_message, reason);
    weft_process_text(weft_runtime.process, process, sizeof(process));
    weft_outcome_fail(outcome, WEFT_ERR_IO, "%s: %.100s: %s %.80s: %s", process, path, step, name, reason);
    return false;
}

/* Errors of HDF5 go to outcomes, not to standard error; the program's setting comes back. */
typedef struct quiet {
    H5E_auto2_t function;
    void *data;
} quiet;

static quiet be_quiet(void)
{
    quiet before = { NULL, NULL };
    H5Eget_auto2(H5E_DEFAULT, &before.function, &before.data);
    H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
    return before;
}

static void be_as_before(quiet before)
{
    H5Eset_auto2(H5E_DEFAULT, before.function, before.data);
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

static bool add_attribute(hid_t dataset, const char *name, const char *text)
{
    hid_t type = H5Tcopy(H5T_C_S1), space = H5Screate(H5S_SCALAR);
    H5Tset_size(type, strlen(text) + 1);
    H5Tset_cset(type, H5T_CSET_UTF8);
    hid_t attribute = H5Acreate2(dataset, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
    bool done = attribute >= 0 && H5Awrite(attribute, type, text) >= 0;
    if (attribute >= 0) {
        H5Aclose(attribute);
    }
    H5Sclose(space);
    H5Tclose(type);
    return done;
}

static bool create_dataset(hid_t file, const char *name, const weft_layout *layout)
{
    char text[256];
    hid_t type = type_of(layout->dtype), space = space_of(layout->ndim, layout->shape);
    hid_t links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1); /* of a name with '/' */
    H5Pset_char_encoding(links, H5T_CSET_UTF8);
    hid_t dataset = H5Dcreate2(file, name, type, space, links, H5P_DEFAULT, H5P_DEFAULT);
    bool done = dataset >= 0 && add_attribute(dataset, "name", name) &&
                add_attribute(dataset, "dtype", weft_dtype_name(layout->dtype)) &&
                add_attribute(dataset, "layout", weft_layout_describe(layout, text, sizeof(text)));
    if (dataset >= 0) {
        H5Dclose(dataset);
    }
    H5Pclose(links);
    H5Sclose(space);
    H5Tclose(type);
    return done;
}

/* Opened so that another process may have closed it just now, on another machine. */
static hid_t open_file(const char *path, unsigned flags)
{
    return H5Fopen(path, flags, H5P_DEFAULT);
}

bool weft_hdf5_create(const char *path, int n, const char *const names[], const weft_layout *const layouts[],
                      weft_outcome *outcome)
{
    quiet before = be_quiet();
    hid_t file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT);
    bool done = file >= 0 || fail(outcome, path, "create", "the file");
    for (int i = 0; i < n && done; i++) {
        done = create_dataset(file, names[i], layouts[i]) || fail(outcome, path, "create", names[i]);
    }
    if (file >= 0 && H5Fclose(file) < 0) {
        done = fail(outcome, path, "close", "the file");
    }
    be_as_before(before);
    return done;
}

/* ---- parts ------------------------------------------------------------------------------------------------------ */

static bool is_empty(const weft_hdf5_part *part)
{
    bool empty = false;
    for (int d = 0; d < part->layout->ndim; d++) {
        empty |= part->extent[d] == 0;
    }
    return empty;
}

static bool transfer_part(hid_t dataset, const weft_hdf5_part *part, bool write)
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
    if (space >= 0) {
        H5Sclose(space);
    }
    H5Sclose(memory);
    H5Tclose(type);
    return done;
}

bool weft_hdf5_write(const char *path, int num_parts, const weft_hdf5_part parts[], weft_outcome *outcome)
{
    quiet before = be_quiet();
    hid_t file = open_file(path, H5F_ACC_RDWR);
    bool done = file >= 0 || fail(outcome, path, "open", "the file");
    for (int i = 0; i < num_parts && done; i++) {
        hid_t dataset = H5Dopen2(file, parts[i].name, H5P_DEFAULT);
        done = dataset >= 0 && (is_empty(&parts[i]) || transfer_part(dataset, &parts[i], true));
        done = done || fail(outcome, path, "write", parts[i].name);
        if (dataset >= 0) {
            H5Dclose(dataset);
        }
    }
    if (file >= 0 && H5Fclose(file) < 0) {
        done = fail(outcome, path, "close", "the file");
    }
    be_as_before(before);
    return done;
}

static bool check_dataset(hid_t dataset, const weft_hdf5_part *part, weft_outcome *outcome)
{
    const weft_layout *layout = part->layout;
    hsize_t sizes[H5S_MAX_RANK];
    hid_t type = H5Dget_type(dataset), wanted = type_of(layout->dtype), space = H5Dget_space(dataset);
    bool same_type = type >= 0 && H5Tequal(type, wanted) > 0;
    bool same_shape = H5Sget_simple_extent_ndims(space) == layout->ndim;
    if (same_shape) {
        H5Sget_simple_extent_dims(space, sizes, NULL);
    }
    for (int d = 0; d < layout->ndim && same_shape; d++) {
        same_shape = sizes[d] == (hsize_t)layout->shape[d];
    }
    if (!same_type) {
        weft_outcome_fail(outcome, WEFT_ERR_DTYPE, "\"%.100s\" has not the type %s in the file", part->name,
                          weft_dtype_name(layout->dtype));
    } else if (!same_shape) {
        char text[80];
        weft_text written = weft_text_in(text, sizeof(text));
        weft_text_add_sizes(&written, layout->ndim, layout->shape, ", ");
        weft_outcome_fail(outcome, WEFT_ERR_SHAPE, "\"%.100s\" has not the shape [%s] in the file", part->name, text);
    }
    H5Sclose(space);
    H5Tclose(wanted);
    H5Tclose(type);
    return same_type && same_shape;
}

static bool read_part(hid_t file, const char *path, const weft_hdf5_part *part, weft_outcome *outcome)
{
    hid_t dataset = H5Dopen2(file, part->name, H5P_DEFAULT);
    if (dataset < 0) {
        weft_outcome_fail(outcome, WEFT_ERR_INVALID, "%.100s has no dataset \"%.100s\"", path, part->name);
        return false;
    }
    bool done = check_dataset(dataset, part, outcome) &&
                (is_empty(part) || transfer_part(dataset, part, false) || fail(outcome, path, "read", part->name));
    H5Dclose(dataset);
    return done;
}

bool weft_hdf5_read(const char *path, int num_parts, const weft_hdf5_part parts[], weft_outcome *outcome)
{
    quiet before = be_quiet();
    hid_t file = open_file(path, H5F_ACC_RDONLY);
    bool done = file >= 0 || fail(outcome, path, "open", "the file");
    for (int i = 0; i < num_parts && done; i++) {
        done = read_part(file, path, &parts[i], outcome);
    }
    if (file >= 0) {
        H5Fclose(file);
    }
    be_as_before(before);
    return done;
}
