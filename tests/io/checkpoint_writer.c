/* No test: writes the file that test_safetensors.py reads, to the path of its first argument. */
#include <stdint.h>
#include <stdio.h>

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
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

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

int main(int argc, char *argv[])
{
    const weft_config config = { .ranks = 4 };
    static const char *const keys[] = { "step", "\xe2\x82\xac" }, *const values[] = { "1200", "a \"text\"\\ with\ttabs" };
    const weft_checkpoint_options options = { .num_entries = 2, .keys = keys, .values = values };
    if (argc < 2 || weft_init(&config) != WEFT_OK) {
        return 1;
    }
    weft_mesh *mesh = weft_mesh_create(2, (const int64_t[]){ 2, 2 }, NULL);
    const char *names[ROWS];
    weft_tensor *tensors[ROWS];
    for (int i = 0; i < ROWS; i++) {
        names[i] = rows[i].name;
        tensors[i] = make(&rows[i], mesh);
    }
    weft_status status = weft_checkpoint_save(argv[1], ROWS, names, tensors, &options);
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    return weft_finalize() == WEFT_OK && status == WEFT_OK ? 0 : 1;
}
