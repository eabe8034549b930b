/* Matrix products by oneDNN, versions 2 and 3. It keeps the code that it generates for a shape, so that nothing is kept
 * here: the objects of a call cost 3 us. */
#include "codelets/cpu/onednn.h"

#if defined WEFT_HAVE_ONEDNN
#include "codelets/cpu/onednn_versions.h"

/* Products of fewer additions take less time in BLAS. */
enum { LEAST_WORK = 1 << 20 };

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

static bool plan(objects *o, const weft_gemm *g, dnnl_data_type_t type)
{
    return dnnl_engine_create(&o->engine, dnnl_cpu, 0) == dnnl_success &&
           dnnl_stream_create(&o->stream, o->engine, dnnl_stream_default_flags) == dnnl_success &&
           describe_side(o, A, type, g->m, g->k, g->lda, g->transpose_a) &&
           describe_side(o, B, type, g->k, g->n, g->ldb, g->transpose_b) &&
           describe_side(o, C, dnnl_f32, g->m, g->n, g->ldc, false) &&
           dnnl_primitive_attr_create(&o->attributes) == dnnl_success &&
           dnnl_primitive_attr_set_scratchpad_mode(o->attributes, dnnl_scratchpad_mode_user) == dnnl_success &&
           dnnl_post_ops_create(&o->after) == dnnl_success &&
           (g->alpha == 1 || weft_dnnl_append_factor(o->after, (float)g->alpha)) &&
           (g->beta == 0 || weft_dnnl_append_sum(o->after, (float)g->beta)) &&
           dnnl_primitive_attr_set_post_ops(o->attributes, o->after) == dnnl_success &&
           weft_dnnl_plan_product(&o->plan, o->engine, o->side, o->attributes);
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
    default:
        return false;
    }
}

bool weft_onednn_multiply(const weft_gemm *g, weft_dtype input_type, const void *a, const void *b, void *c)
{
    dnnl_data_type_t type;
    double work = (double)g->m * (double)g->n * (double)g->k;
    if (g->dtype != WEFT_F32 || g->m <= 1 || g->n <= 1 || work < LEAST_WORK || !type_of(input_type, &type) ||
        !weft_dnnl_has_one_thread()) {
        return false;
    }
    objects o = { 0 };
    int former = weft_dnnl_use_threads(1);
    bool done = plan(&o, g, type) && provide_memory(&o, a, b, c) && run(&o);
    destroy(&o);
    weft_dnnl_use_threads(former);
    return done;
}

#else

bool weft_onednn_multiply(const weft_gemm *g, weft_dtype input_type, const void *a, const void *b, void *c)
{
    (void)g, (void)input_type, (void)a, (void)b, (void)c;
    return false;
}

#endif
