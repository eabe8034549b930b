/* No test: writes the file that test_safetensors.py reads, to the path of its first argument, in files of as many bytes as the second
 * one says. With the path of a checkpoint as third argument: its tensors instead. If the paths end in ".h5", the files are HDF5's for
 * test_hdf5.py, compressed as the second argument says; if they end in ".zarr", Zarr stores for test_zarr.py, by gzip of that level, or by
 * zstd of its negative, and in more types. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

typedef struct row {
    const char *name;
    weft_dtype dtype;
    int ndim;
    int64_t shape[3];
} row;

static const row rows[] = {
    { "bool", WEFT_BOOL, 1, { 6 } },    { "f64", WEFT_F64, 2, { 5, 3 } }, { "f32", WEFT_F32, 3, { 4, 3, 2 } },
    { "f16", WEFT_F16, 1, { 9 } },      { "bf16", WEFT_BF16, 1, { 7 } },  { "i64", WEFT_I64, 1, { 11 } },
    { "i32", WEFT_I32, 2, { 2, 6 } },   { "u8", WEFT_U8, 1, { 13 } },     { "scalar", WEFT_F32, 0, { 0 } },
    { "empty", WEFT_F32, 2, { 0, 4 } }, { "\xc3\xbc \"quoted\"\\\n", WEFT_F32, 1, { 3 } },
    { "more/i8", WEFT_I8, 2, { 5, 5 } }, { "more/i16", WEFT_I16, 1, { 17 } }, { "more/u16", WEFT_U16, 2, { 7, 3 } },
    { "more/u32", WEFT_U32, 1, { 9 } }, { "more/u64", WEFT_U64, 3, { 3, 4, 5 } }, { "more/c/c64", WEFT_C64, 2, { 3, 5 } },
    { "more/c/c128", WEFT_C128, 1, { 11 } },
};
enum { ALL_ROWS = sizeof(rows) / sizeof(rows[0]), ROWS = ALL_ROWS - 7 /* without those of Zarr alone */ };

/* Element i is i % 100. */
static weft_tensor *make(const row *r, weft_mesh *mesh)
{
    double values[64];
    weft_placement placements[] = { weft_replicate(), weft_replicate() };
    for (int i = 0; i < r->ndim && i < 2; i++) {
        placements[i] = weft_shard(i);
    }
    for (int i = 0; i < 64; i++) {
        values[i] = i % 100;
    }
    return weft_to_type(weft_distribute(WEFT_F64, r->ndim, r->shape, values, mesh, placements), r->dtype);
}

/* The tensors of another program's checkpoint, in shards. Names live as long as the file. */
static int load(const char *path, int most, weft_mesh *mesh, const char *names[], weft_tensor *tensors[])
{
    const weft_checkpoint_file *file = weft_checkpoint_open(path);
    const int n = weft_checkpoint_num_tensors(file);
    const weft_placement placements[] = { weft_shard(0), weft_replicate() };
    for (int i = 0; i < n && i < most; i++) {
        weft_checkpoint_entry entry;
        weft_checkpoint_tensor(file, i, &entry);
        names[i] = entry.name;
        tensors[i] = weft_zeros(entry.dtype, entry.ndim, entry.shape, mesh, entry.ndim > 0 ? placements : NULL);
    }
    return n <= most && weft_checkpoint_load(path, n, names, tensors) == WEFT_OK ? n : -1;
}

static weft_status save(const char *path, long long number, int n, const char *const names[], weft_tensor *const tensors[])
{
    static const char *const keys[] = { "step", "\xe2\x82\xac" }, *const values[] = { "1200", "a \"text\"\\ with\ttabs" };
    const weft_checkpoint_options options = { .num_entries = 2, .keys = keys, .values = values, .max_file_bytes = number };
    const weft_hdf5_options stored = { .compression = (int)number, .chunk_bytes = number > 0 ? 48 : 0 };
    const weft_zarr_options arrays = { .codec = number > 0 ? "gzip" : number < 0 ? "zstd" : NULL, .level = abs((int)number), .chunk_bytes = 48 };
    const char *dot = strrchr(path, '.');
    return dot != NULL && strcmp(dot, ".zarr") == 0 ? weft_zarr_save(path, n, names, tensors, &arrays)
           : dot != NULL && strcmp(dot, ".h5") == 0 ? weft_hdf5_save_ex(path, n, names, tensors, &stored)
                                                    : weft_checkpoint_save(path, n, names, tensors, &options);
}

int main(int argc, char *argv[])
{
    enum { MOST = 64 };
    const weft_config config = { .ranks = 4 };
    if (argc < 2 || weft_init(&config) != WEFT_OK) {
        return 1;
    }
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    const char *names[MOST];
    weft_tensor *tensors[MOST];
    const bool zarr = strstr(argv[1], ".zarr") != NULL, hdf5 = strstr(argv[1], ".h5") != NULL, copies = argc > 3, known = zarr || hdf5;
    int n = copies && !known ? load(argv[3], MOST, mesh, names, tensors) : zarr ? ALL_ROWS : ROWS;
    for (int i = 0; i < n && (known || !copies); i++) {
        names[i] = zarr && strchr(rows[i].name, '\\') != NULL ? "\xc3\xbc \"quoted\"" : rows[i].name;
        tensors[i] = copies ? weft_zeros_like(make(&rows[i], mesh)) : make(&rows[i], mesh);
    }
    weft_status status = n < 0 ? weft_last_status()
                         : zarr && copies ? weft_zarr_load(argv[3], n, names, tensors)
                         : hdf5 && copies ? weft_hdf5_load(argv[3], n, names, tensors)
                                          : WEFT_OK;
    status = status == WEFT_OK ? save(argv[1], argc > 2 ? atoll(argv[2]) : 0, n, names, tensors) : status;
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    return weft_finalize() == WEFT_OK && status == WEFT_OK ? 0 : 1;
}
