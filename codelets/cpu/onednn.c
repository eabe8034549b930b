/* Matrix products by oneDNN, versions 2 and 3. It keeps the code that it generates for a shape, so that nothing is kept
 * here: the objects of a call cost 3 us. */
#include "codelets/cpu/onednn.h"

#if defined WEFT_HAVE_ONEDNN
#include "codelets/cpu/onednn_versions.h"

/* Products of fewer additions take less time in BLAS. */
enum { MIN_WORK = 1 << 20 };

/* ---- one product --------------------------------------------------------------------------------------- */

enum { A, B, C, SIDES };

/* The objects of a product; those that are not made yet are NULL. */
typedef struct objects {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    weft_dnnl_description side[SIDES];
    bool described[SIDES];
    dnnl_primitive_attr_t attributes;
    dnnl_post_ops_t after;
    dnnl_primitive_desc_t plan;
    dnnl_primitive_t primitive;
    dnnl_memory_t memory[SIDES], scratch;
    void *scratch_bytes;
} objects;

static bool describe_side(objects *o, int side, dnnl_data_type_t type, int64_t rows, int64_t columns, int64_t stride,
                          bool transposed)
{
    const dnnl_dims_t extent = { rows, columns };
    const dnnl_dims_t strides = { transposed ? 1 : stride, transposed ? stride : 1 };
    o->described[side] = weft_dnnl_describe(&o->side[side], 2, extent, type, strides);
    return o->described[side];
}

typedef struct product_types {
    dnnl_data_type_t input, output;
} product_types;

/* The plan, of B as described. */
static bool plan(objects *o, const weft_gemm *g, product_types types)
{
    return dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success &&
           dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) == dnnl_success &&
           describe_side(o, A, types.input, g->m, g->k, g->lda, g->transpose_a) &&
           describe_side(o, C, types.output, g->m, g->n, g->ldc, false) &&
           dnnl_primitive_attr_create(&o->attributes) == dnnl_success &&
           dnnl_primitive_attr_set_scratchpad_mode(o->attributes, dnnl_scratchpad_mode_user) == dnnl_success &&
           dnnl_post_ops_create(&o->after) == dnnl_success &&
           (g->alpha == 1 || weft_dnnl_append_factor(o->after, (float)g->alpha)) &&
           (g->beta == 0 || weft_dnnl_append_sum(o->after, (float)g->beta)) &&
           dnnl_primitive_attr_set_post_ops(o->attributes, o->after) == dnnl_success &&
           weft_dnnl_plan_product(&o->plan, o->engine, o->side, o->attributes);
}

static bool describe_b(objects *o, const weft_gemm *g, dnnl_data_type_t type)
{
    return describe_side(o, B, type, g->k, g->n, g->ldb, g->transpose_b);
}

static bool create_memory(objects *o, int side, void *address)
{
    return dnnl_memory_create(&o->memory[side], weft_dnnl_borrow(&o->side[side]), o->engine, address) == dnnl_success;
}

static bool provide_memory(objects *o, const void *a, const void *b, void *c)
{
    weft_dnnl_borrowed scratch = dnnl_primitive_desc_query_md(o->plan, dnnl_query_scratchpad_md, 0);
    size_t size = scratch == NULL ? 0 : dnnl_memory_desc_get_size(scratch);
    if (size > 0 && (o->scratch_bytes = weft_dnnl_allocate(size)) == NULL) {
        return false;
    }
    return create_memory(o, A, (void *)(uintptr_t)a) && create_memory(o, B, (void *)(uintptr_t)b) && create_memory(o, C, c) &&
           (size == 0 || dnnl_memory_create(&o->scratch, scratch, o->engine, o->scratch_bytes) == dnnl_success);
}

static bool run(objects *o)
{
    const dnnl_exec_arg_t arguments[] = { { DNNL_ARG_SRC, o->memory[A] },
                                          { DNNL_ARG_WEIGHTS, o->memory[B] },
                                          { DNNL_ARG_DST, o->memory[C] },
                                          { DNNL_ARG_SCRATCHPAD, o->scratch } };
    return dnnl_primitive_create(&o->primitive, o->plan) == dnnl_success &&
           dnnl_primitive_execute(o->primitive, o->stream, o->scratch == NULL ? SIDES : SIDES + 1, arguments) ==
               dnnl_success &&
           dnnl_stream_wait(o->stream) == dnnl_success;
}

/* Destroying NULL is an error that means nothing. */
static void destroy(objects *o)
{
    for (int side = 0; side < SIDES; side++) {
        dnnl_memory_destroy(o->memory[side]);
        if (o->described[side]) {
            weft_dnnl_forget(&o->side[side]);
        }
    }
    dnnl_memory_destroy(o->scratch);
    free(o->scratch_bytes);
    dnnl_primitive_destroy(o->primitive);
    dnnl_primitive_desc_destroy(o->plan);
    dnnl_post_ops_destroy(o->after);
    dnnl_primitive_attr_destroy(o->attributes);
    dnnl_stream_destroy(o->stream);
    dnnl_engine_destroy(o->engine);
}

/* ---- which products ------------------------------------------------------------------------------------ */

/* Processors that lack instructions for a type get BLAS, which is as fast or faster. */
static bool type_of(weft_dtype dtype, dnnl_data_type_t *type)
{
    switch (dtype) {
    case WEFT_F32:
        *type = dnnl_f32;
        return weft_dnnl_has(dnnl_cpu_isa_avx512_core);
    case WEFT_BF16:
        *type = dnnl_bf16;
        return weft_dnnl_has(dnnl_cpu_isa_avx512_core_bf16);
#if DNNL_VERSION_MAJOR >= 3
    case WEFT_F16:
        *type = dnnl_f16;
        return weft_dnnl_has(dnnl_cpu_isa_avx512_core_fp16);
#endif
    default:
        return false;
    }
}

static bool is_ours(const weft_gemm *g, weft_dtype input_type, dnnl_data_type_t *type)
{
    double work = (double)g->m * (double)g->n * (double)g->k;
    return g->dtype == WEFT_F32 && g->m > 1 && g->n > 1 && work >= MIN_WORK && type_of(input_type, type) &&
           weft_dnnl_has_one_thread();
}

/* False: C is of another type, or would be rounded before it is added to. */
static bool output_of(const weft_gemm *g, weft_product_types types, dnnl_data_type_t input, product_types *own)
{
    own->input = input;
    own->output = types.output == WEFT_F32 ? dnnl_f32 : input;
    return types.output == WEFT_F32 || (types.output == types.input && g->beta == 0);
}

bool weft_onednn_multiply(const weft_gemm *g, weft_product_types types, const void *a, const void *b, void *c)
{
    dnnl_data_type_t input;
    product_types own;
    if (!is_ours(g, types.input, &input) || !output_of(g, types, input, &own)) {
        return false;
    }
    objects o = { 0 };
    int former = weft_dnnl_use_threads(1);
    bool done = describe_b(&o, g, input) && plan(&o, g, own) && provide_memory(&o, a, b, c) && run(&o);
    destroy(&o);
    weft_dnnl_use_threads(former);
    return done;
}

/* ---- a packed B ---------------------------------------------------------------------------------------- */

/* The order that oneDNN chooses for B in products of `rows` rows; it belongs to `o`, which is destroyed by the caller. NULL:
 * there is none, or no kernel for it. */
static weft_dnnl_borrowed choose_order(objects *o, const weft_gemm *g, int64_t rows, dnnl_data_type_t type)
{
    const weft_gemm plain = { .m = rows, .n = g->n, .k = g->k, .lda = g->k, .ldb = g->n, .ldc = g->n, .alpha = 1 };
    const dnnl_dims_t extent = { g->k, g->n };
    o->described[B] = weft_dnnl_describe_any(&o->side[B], 2, extent, type);
    return o->described[B] && plan(o, &plain, (product_types){ type, dnnl_f32 }) && weft_dnnl_is_generated(o->plan)
               ? dnnl_primitive_desc_query_md(o->plan, dnnl_query_exec_arg_md, DNNL_ARG_WEIGHTS)
               : NULL;
}

/* Whether rows from WEFT_PACKED_ROWS on have a place of their own in the order. */
static bool takes_parts(weft_dnnl_borrowed order, const weft_gemm *g)
{
    if (g->transpose_b || g->k <= WEFT_PACKED_ROWS) {
        return true;
    }
    const dnnl_dims_t extent = { g->k - WEFT_PACKED_ROWS, g->n }, offset = { WEFT_PACKED_ROWS, 0 };
    weft_dnnl_description part;
    bool taken = weft_dnnl_describe_part(&part, order, extent, offset);
    if (taken) {
        weft_dnnl_forget(&part);
    }
    return taken;
}

int64_t weft_packed_bytes(const weft_gemm *g, weft_dtype input_type)
{
    dnnl_data_type_t type;
    if (!is_ours(g, input_type, &type)) {
        return 0;
    }
    objects o = { 0 };
    int former = weft_dnnl_use_threads(1);
    weft_dnnl_borrowed order = choose_order(&o, g, g->m, type);
    int64_t stored = g->k * g->n * (int64_t)weft_dtype_size(input_type);
    int64_t bytes = order == NULL || !takes_parts(order, g) ? 0 : (int64_t)dnnl_memory_desc_get_size(order);
    destroy(&o);
    weft_dnnl_use_threads(former);
    return bytes == 0 || bytes > stored ? bytes : stored;
}

/* B, or with `in` rows of it, between their order as stored and the packed one. `stored` has the strides of g. */
static bool reorder(objects *o, weft_dnnl_borrowed order, const weft_gemm *g, dnnl_data_type_t type, int64_t first, int64_t count,
                    void *stored, void *packed, bool in)
{
    int64_t rows = g->transpose_b ? g->k : count, columns = g->transpose_b ? count : g->n;
    const dnnl_dims_t extent = { rows, columns }, offset = { g->transpose_b ? 0 : first, g->transpose_b ? first : 0 };
    const dnnl_dims_t strides = { g->transpose_b ? 1 : g->ldb, g->transpose_b ? g->ldb : 1 };
    bool all = count == (g->transpose_b ? g->n : g->k);
    weft_dnnl_description plain, part;
    if (!weft_dnnl_describe(&plain, 2, extent, type, strides)) {
        return false;
    }
    bool done = all || weft_dnnl_describe_part(&part, order, extent, offset);
    if (done) {
        weft_dnnl_borrowed target = all ? order : weft_dnnl_borrow(&part), source = weft_dnnl_borrow(&plain);
        done = in ? weft_dnnl_reorder(o->engine, o->stream, source, stored, target, packed)
                  : weft_dnnl_reorder(o->engine, o->stream, target, packed, source, stored);
        if (!all) {
            weft_dnnl_forget(&part);
        }
    }
    weft_dnnl_forget(&plain);
    return done;
}

bool weft_onednn_pack(const weft_gemm *g, weft_dtype input_type, int64_t first, int64_t count, const void *b, void *packed)
{
    dnnl_data_type_t type;
    objects o = { 0 };
    int former = weft_dnnl_use_threads(1);
    weft_dnnl_borrowed order = type_of(input_type, &type) ? choose_order(&o, g, g->m, type) : NULL;
    bool done = order != NULL && reorder(&o, order, g, type, first, count, (void *)(uintptr_t)b, packed, true);
    destroy(&o);
    weft_dnnl_use_threads(former);
    return done;
}

/* The product as one of B as stored. */
static bool unpack_and_multiply(objects *o, weft_dnnl_borrowed order, const weft_gemm *g, weft_dtype input_type,
                                dnnl_data_type_t type, const void *a, const void *packed, void *c)
{
    weft_gemm plain = *g;
    plain.transpose_b = false;
    plain.ldb = g->n;
    void *b = malloc((size_t)(g->k * g->n) * weft_dtype_size(input_type) + 1);
    bool done = b != NULL && reorder(o, order, &plain, type, 0, g->k, b, (void *)(uintptr_t)packed, false) &&
                weft_multiply_from(&plain, input_type, a, b, c);
    free(b);
    return done;
}

bool weft_onednn_multiply_packed(const weft_gemm *g, weft_product_types types, int64_t rows, const void *a, const void *packed,
                                 void *c)
{
    dnnl_data_type_t input;
    product_types own;
    objects o = { 0 }, chooser = { 0 };
    int former = weft_dnnl_use_threads(1);
    bool ours = type_of(types.input, &input) && output_of(g, types, input, &own), done = false;
    weft_dnnl_borrowed order = ours ? choose_order(&chooser, g, rows, input) : NULL;
    if (order != NULL) {
        o.described[B] = weft_dnnl_copy_description(&o.side[B], order);
        bool fits = o.described[B] && plan(&o, g, own) && weft_dnnl_is_generated(o.plan);
        done = fits ? provide_memory(&o, a, packed, c) && run(&o)
                    : types.output == WEFT_F32 && unpack_and_multiply(&chooser, order, g, types.input, input, a, packed, c);
    }
    destroy(&o);
    destroy(&chooser);
    weft_dnnl_use_threads(former);
    return done;
}

#else

bool weft_onednn_multiply(const weft_gemm *g, weft_product_types types, const void *a, const void *b, void *c)
{
    (void)g, (void)types, (void)a, (void)b, (void)c;
    return false;
}

int64_t weft_packed_bytes(const weft_gemm *g, weft_dtype input_type)
{
    (void)g, (void)input_type;
    return 0;
}

bool weft_onednn_pack(const weft_gemm *g, weft_dtype input_type, int64_t first, int64_t count, const void *b, void *packed)
{
    (void)g, (void)input_type, (void)first, (void)count, (void)b, (void)packed;
    return false;
}

bool weft_onednn_multiply_packed(const weft_gemm *g, weft_product_types types, int64_t rows, const void *a, const void *packed,
                                 void *c)
{
    (void)g, (void)types, (void)rows, (void)a, (void)packed, (void)c;
    return false;
}

#endif
