#include "base/base.h"

const char *weft_version(void)
{
    return WEFT_VERSION;
}

const char *weft_status_string(weft_status status)
{
    switch (status) {
    case WEFT_OK:
        return "no error";
    case WEFT_ERR_INVALID:
        return "invalid argument";
    case WEFT_ERR_SHAPE:
        return "shape mismatch";
    case WEFT_ERR_DTYPE:
        return "element type mismatch";
    case WEFT_ERR_LAYOUT:
        return "layout not possible here";
    case WEFT_ERR_MESH:
        return "no mesh, or another mesh";
    case WEFT_ERR_MISMATCH:
        return "ranks differ";
    case WEFT_ERR_UNSUPPORTED:
        return "not supported";
    case WEFT_ERR_NOMEM:
        return "out of memory";
    case WEFT_ERR_IO:
        return "input or output failed";
    case WEFT_ERR_COMM:
        return "communication failed";
    case WEFT_ERR_TIMEOUT:
        return "timed out";
    case WEFT_ERR_STATE:
        return "called at the wrong time";
    case WEFT_ERR_INTERNAL:
        return "a mistake in weft";
    }
    return "unknown status";
}

static const struct {
    const char *name;
    size_t size;
} dtypes[WEFT_DTYPE_COUNT] = {
    [WEFT_F64] = { "f64", 8 }, [WEFT_F32] = { "f32", 4 },   [WEFT_BF16] = { "bf16", 2 },
    [WEFT_F16] = { "f16", 2 }, [WEFT_I64] = { "i64", 8 },   [WEFT_I32] = { "i32", 4 },
    [WEFT_U8] = { "u8", 1 },   [WEFT_BOOL] = { "bool", 1 }, [WEFT_C64] = { "c64", 8 },   [WEFT_C128] = { "c128", 16 },
    [WEFT_I8] = { "i8", 1 },   [WEFT_I16] = { "i16", 2 },   [WEFT_U16] = { "u16", 2 },   [WEFT_U32] = { "u32", 4 },
    [WEFT_U64] = { "u64", 8 }, [WEFT_F8_E4M3] = { "f8_e4m3", 1 }, [WEFT_F8_E5M2] = { "f8_e5m2", 1 },
};

static bool is_dtype(weft_dtype dtype)
{
    return (int)dtype >= 0 && (int)dtype < WEFT_DTYPE_COUNT;
}

size_t weft_dtype_size(weft_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].size : 0;
}

const char *weft_dtype_name(weft_dtype dtype)
{
    return is_dtype(dtype) ? dtypes[dtype].name : "?";
}
