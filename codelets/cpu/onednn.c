/* Matrix products by oneDNN, versions 2 and 3. It keeps the code that it generates for a shape, so that nothing is kept
 * here: the objects of a call cost 3 us. */
#include "codelets/cpu/onednn.h"

#if defined WEFT_HAVE_ONEDNN
#include <oneapi/dnnl/dnnl.h>
#include <stdlib.h>

/* Products of fewer additions take less time in BLAS. */
enum { LEAST_WORK = 1 << 20 };

/* Where oneDNN's threads are OpenMP's: StarPU's workers are the threads. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

static int use_threads(int threads)
{
    if (omp_get_max_threads == NULL || omp_set_num_threads == NULL) {
        return threads;
    }
    int former = omp_get_max_threads();
    if (former != threads) {
        omp_set_num_threads(threads);
    }
    return former;
}

/* ---- versions ------------------------------------------------------------------------------------------ */

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t description;
typedef const_dnnl_memory_desc_t kept_description; /* of a primitive's description */

static bool describe(description *d, const dnnl_dims_t extent, dnnl_data_type_t type, const dnnl_dims_t stride)
{
    return dnnl_memory_desc_create_with_strides(d, 2, extent, type, stride) == dnnl_success;
}

static void forget(description *d)
{
    dnnl_memory_desc_destroy(*d);
}

static bool create_memory(dnnl_memory_t *memory, const description *d, dnnl_engine_t engine, void *address)
{
    return dnnl_memory_create(memory, *d, engine, address) == dnnl_success;
}

static bool append_sum(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_sum(after, factor, 0, dnnl_data_type_undef) == dnnl_success;
}

static bool append_factor(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_linear, factor, 0) == dnnl_success;
}

static bool plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, const description side[3],
                         dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(plan, engine, side[0], side[1], NULL, side[2], attributes) == dnnl_success;
}
#else
typedef dnnl_memory_desc_t description;
typedef const dnnl_memory_desc_t *kept_description;

static bool describe(description *d, const dnnl_dims_t extent, dnnl_data_type_t type, const dnnl_dims_t stride)
{
    return dnnl_memory_desc_init_by_strides(d, 2, extent, type, stride) == dnnl_success;
}

static void forget(description *d)
{
    (void)d;
}

static bool create_memory(dnnl_memory_t *memory, const description *d, dnnl_engine_t engine, void *address)
{
    return dnnl_memory_create(memory, d, engine, address) == dnnl_success;
}

static bool append_sum(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_sum(after, factor) == dnnl_success;
}

static bool append_factor(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_linear, factor, 0) == dnnl_success;
}

static bool plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine, const description side[3],
                         dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t product;
    return dnnl_matmul_desc_init(&product, &side[0], &side[1], NULL, &side[2]) == dnnl_success &&
           dnnl_primitive_desc_create(plan, &product, attributes, engine, NULL) == dnnl_success;
}
#endif

/* ---- one product --------------------------------------------------------------------------------------- */

enum { A, B, C, SIDES };

/* The objects of a product; those that are not made yet are NULL. */
typedef struct objects {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    description side[SIDES];
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
    o->described[side] = describe(&o->side[side], extent, type, strides);
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
           (g->alpha == 1 || append_factor(o->after, (float)g->alpha)) &&
           (g->beta == 0 || append_sum(o->after, (float)g->beta)) &&
           dnnl_primitive_attr_set_post_ops(o->attributes, o->after) == dnnl_success &&
           plan_product(&o->plan, o->engine, o->side, o->attributes);
}

static bool provide_memory(objects *o, const void *a, const void *b, void *c)
{
    kept_description scratch = dnnl_primitive_desc_query_md(o->plan, dnnl_query_scratchpad_md, 0);
    size_t size = scratch == NULL ? 0 : dnnl_memory_desc_get_size(scratch);
    enum { LINE = 64 };
    if (size > 0 && (o->scratch_bytes = aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE)) == NULL) {
        return false;
    }
    return create_memory(&o->memory[A], &o->side[A], o->engine, (void *)(uintptr_t)a) &&
           create_memory(&o->memory[B], &o->side[B], o->engine, (void *)(uintptr_t)b) &&
           create_memory(&o->memory[C], &o->side[C], o->engine, c) &&
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
            forget(&o->side[side]);
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

static bool has(dnnl_cpu_isa_t wanted)
{
    return ((int)dnnl_get_effective_cpu_isa() & (int)wanted) == (int)wanted;
}

/* Whether oneDNN can be limited to the calling thread: StarPU's workers are the threads. Its sequential runtime has no other
 * one, OpenMP's takes a number, the others have no such setting. */
static bool has_one_thread(void)
{
    unsigned runtime = dnnl_version()->cpu_runtime;
    return runtime == DNNL_RUNTIME_SEQ || (runtime == DNNL_RUNTIME_OMP && omp_set_num_threads != NULL);
}

/* Processors that lack instructions for a type get BLAS, which is as fast or faster. */
static bool type_of(weft_dtype dtype, dnnl_data_type_t *type)
{
    switch (dtype) {
    case WEFT_F32:
        *type = dnnl_f32;
        return has(dnnl_cpu_isa_avx512_core);
    case WEFT_BF16:
        *type = dnnl_bf16;
        return has(dnnl_cpu_isa_avx512_core_bf16);
    default:
        return false;
    }
}

bool weft_onednn_multiply(const weft_gemm *g, weft_dtype input_type, const void *a, const void *b, void *c)
{
    dnnl_data_type_t type;
    double work = (double)g->m * (double)g->n * (double)g->k;
    if (g->dtype != WEFT_F32 || g->m <= 1 || g->n <= 1 || work < LEAST_WORK || !type_of(input_type, &type) ||
        !has_one_thread()) {
        return false;
    }
    objects o = { 0 };
    int former = use_threads(1);
    bool done = plan(&o, g, type) && provide_memory(&o, a, b, c) && run(&o);
    destroy(&o);
    use_threads(former);
    return done;
}

#else

bool weft_onednn_multiply(const weft_gemm *g, weft_dtype input_type, const void *a, const void *b, void *c)
{
    (void)g, (void)input_type, (void)a, (void)b, (void)c;
    return false;
}

#endif
