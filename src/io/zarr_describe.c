/* zarr.json as weft writes it. */
#include <string.h>

#include "codelets/types.h"
#include "io/json.h"
#include "io/zarr_metadata.h"

static void add_codecs(weft_text *text, const weft_zarr_array *array)
{
    const weft_zarr_chain *chain = &array->chain;
    const bool one_byte = weft_dtype_size(array->dtype) == 1;
    weft_text_add(text, "{\"name\": \"bytes\"%s}", one_byte ? "" : ", \"configuration\": {\"endian\": \"little\"}");
    for (int i = 0; i < chain->num_codecs; i++) {
        weft_text_add(text, ", {\"name\": \"%s\"", weft_zarr_codec_name(chain->codecs[i]));
        if (chain->codecs[i] != WEFT_ZARR_CRC32C) {
            weft_text_add(text, ", \"configuration\": {\"level\": %d%s}", chain->level,
                          chain->codecs[i] == WEFT_ZARR_ZSTD ? ", \"checksum\": false" : "");
        }
        weft_text_add(text, "}");
    }
}

static const char *zero_of(weft_dtype dtype)
{
    int64_t least;
    uint64_t most;
    return dtype == WEFT_BOOL                           ? "false"
           : dtype == WEFT_C64 || dtype == WEFT_C128 ? "[0.0, 0.0]"
           : weft_whole_range(dtype, &least, &most)  ? "0"
                                                        : "0.0";
}

void weft_zarr_add(weft_text *text, const weft_zarr_array *array, const char *name, const char *layout)
{
    weft_text_add(text, "{\"zarr_format\": 3, \"node_type\": \"array\", \"shape\": [");
    weft_text_add_sizes(text, array->ndim, array->shape, ", ");
    weft_text_add(text, "], \"data_type\": \"%s\", \"chunk_grid\": {\"name\": \"regular\", \"configuration\": {\"chunk_shape\": [",
                  weft_zarr_dtype_name(array->dtype));
    weft_text_add_sizes(text, array->ndim, array->chunk, ", ");
    weft_text_add(text, "]}}, \"chunk_key_encoding\": {\"name\": \"default\", \"configuration\": {\"separator\": \"/\"}}, "
                        "\"fill_value\": %s, \"codecs\": [", zero_of(array->dtype));
    add_codecs(text, array);
    weft_text_add(text, "], \"attributes\": {\"name\": ");
    weft_json_add_string(text, name);
    weft_text_add(text, ", \"dtype\": \"%s\", \"layout\": ", weft_dtype_name(array->dtype));
    weft_json_add_string(text, layout);
    weft_text_add(text, "}, \"dimension_names\": [");
    const char *slash = strrchr(name, '/');
    for (int d = 0; d < array->ndim; d++) {
        weft_text own = weft_text_growing();
        weft_text_add(&own, "%s.dim%d", slash == NULL ? name : slash + 1, d);
        weft_text_add(text, d == 0 ? "" : ", ");
        weft_json_add_string(text, own.failed || own.characters == NULL ? "" : own.characters);
        text->failed |= own.failed;
        weft_text_free(&own);
    }
    weft_text_add(text, "]}\n");
}
