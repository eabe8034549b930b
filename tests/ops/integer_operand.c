#include "integer_operand.h"

#include <stdlib.h>
#include <string.h>

static const weft_dtype integer_types[] = { WEFT_I8,  WEFT_I16, WEFT_U16, WEFT_U32, WEFT_U64, WEFT_I8,
                                            WEFT_U64, WEFT_U8,  WEFT_I32, WEFT_I64 };

weft_dtype any_integer(void)
{
    return integer_types[below(sizeof(integer_types) / sizeof(integer_types[0]))];
}

bool has_sign(weft_dtype type)
{
    return type == WEFT_I8 || type == WEFT_I16 || type == WEFT_I32 || type == WEFT_I64;
}

wide cut(weft_dtype type, wide x)
{
    const int bits = 8 * (int)weft_dtype_size(type);
    const wide_bits mask = ((wide_bits)1 << bits) - 1, low = (wide_bits)x & mask;
    return type == WEFT_BOOL ? x != 0 : has_sign(type) && (low >> (bits - 1)) ? (wide)low - ((wide)1 << bits) : (wide)low;
}

static wide read_number(weft_dtype type, const void *memory, int64_t i)
{
    uint64_t bits = 0;
    memcpy(&bits, (const char *)memory + (size_t)i * weft_dtype_size(type), weft_dtype_size(type));
    return cut(type, (wide)bits);
}

static void write_number(weft_dtype type, void *memory, int64_t i, wide x)
{
    const uint64_t bits = (uint64_t)x;
    memcpy((char *)memory + (size_t)i * weft_dtype_size(type), &bits, weft_dtype_size(type));
}

wide any_value(weft_dtype type)
{
    const uint64_t bits = prng_next(&source);
    switch (below(4)) {
    case 0:
        return cut(type, (wide)bits);
    case 1:
        return cut(type, (wide)(bits % 7) - 3);
    case 2:
        return cut(type, ((wide)1 << below(64)) - (wide)below(2));
    default:
        return cut(type, (wide)(bits >> below(64)));
    }
}

/* One of `parts` addends that make up the value by `op`. */
static wide addend_of(const integers *x, weft_reduce_op op, int64_t parts, int64_t part, int64_t i)
{
    const wide value = x->dense[i];
    if (op == WEFT_SUM) {
        return part == 0 ? cut(x->type, value - (wide)(parts - 1) * 77) : 77;
    }
    return part == i % parts ? value : op == WEFT_PROD ? 1 : value;
}

static void write_integers(const hosted_shard *s, const void *context)
{
    const integers *x = context;
    weft_reduce_op op = WEFT_SUM;
    int64_t part = 0, parts = 1;
    for (int m = 0; m < weft_mesh_ndim(x->mesh); m++) {
        if (x->placements[m].kind == WEFT_PARTIAL) {
            op = x->placements[m].op;
            part = part * weft_mesh_size(x->mesh, m) + s->coordinate[m];
            parts *= weft_mesh_size(x->mesh, m);
        }
    }
    for (int64_t i = 0; i < s->count; i++) {
        write_number(x->type, s->values, i, addend_of(x, op, parts, part, shard_element(s, 2, x->shape, i)));
    }
}

integers *make(weft_mesh *mesh, weft_dtype type, int64_t rows, int64_t columns)
{
    integers *x = calloc(1, sizeof(*x));
    *x = (integers){ .type = type, .shape = { rows, columns }, .count = rows * columns, .mesh = mesh };
    for (int64_t i = 0; i < x->count; i++) {
        x->dense[i] = any_value(type);
    }
    random_placements(&source, mesh, 2, true, x->placements);
    random_cut_sizes(&source, mesh, 2, x->shape, x->placements);
    for (int m = 0; m < weft_mesh_ndim(mesh); m++) {
        weft_placement *p = &x->placements[m];
        if (p->kind == WEFT_PARTIAL && p->op == WEFT_AVG) {
            *p = weft_partial(WEFT_SUM);
        }
    }
    x->tensor = make_of_shards(type, 2, x->shape, mesh, x->placements, write_integers, x);
    assert_no_error();
    return x;
}

void check_numbers(weft_tensor *result, weft_dtype type, int64_t count, const wide expected[], const char *what)
{
    static char memory[MOST * 8];
    assert_no_error();
    assert_non_null(result);
    assert_int_equal(weft_tensor_dtype(result), type);
    assert_int_equal(weft_tensor_num_elements(result), count);
    assert_int_equal(weft_to_host(result, memory, (size_t)count * weft_dtype_size(type)), WEFT_OK);
    for (int64_t i = 0; i < count; i++) {
        const wide got = read_number(type, memory, i);
        if (got != expected[i]) {
            fail_msg("%s of %s: element %lld is %lld (%#llx), expected %lld (%#llx)", what, weft_dtype_name(type), (long long)i,
                     (long long)got, (unsigned long long)got, (long long)expected[i], (unsigned long long)expected[i]);
        }
    }
    checks_made++;
}
