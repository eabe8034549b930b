/* Calls that differ between oneDNN's versions 2 and 3, and helpers of all files that use oneDNN. */
#ifndef WEFT_CODELETS_CPU_ONEDNN_VERSIONS_H
#define WEFT_CODELETS_CPU_ONEDNN_VERSIONS_H

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* ---- versions ------------------------------------------------------------------------------------------ */

/* weft_dnnl_description: of a tensor's memory, to be destroyed by its owner; weft_dnnl_borrowed: oneDNN's, or that of a
 * description. Functions return false, with nothing made. */

typedef struct weft_dnnl_window {
    dnnl_dims_t strides, dilations, before,
        after; /* dilations: 0 for neighbours; before and after: padding */
} weft_dnnl_window;

#if DNNL_VERSION_MAJOR >= 3
typedef dnnl_memory_desc_t weft_dnnl_description;
typedef const_dnnl_memory_desc_t weft_dnnl_borrowed;

static inline weft_dnnl_borrowed weft_dnnl_borrow(const weft_dnnl_description *d)
{
    return *d;
}

static inline bool weft_dnnl_describe(weft_dnnl_description *d, int ndims, const dnnl_dims_t extent,
                                      dnnl_data_type_t type, const dnnl_dims_t stride)
{
    return dnnl_memory_desc_create_with_strides(d, ndims, extent, type, stride) == dnnl_success;
}

/* In the order of elements that a primitive chooses. */
static inline bool weft_dnnl_describe_any(weft_dnnl_description *d, int ndims, const dnnl_dims_t extent,
                                          dnnl_data_type_t type)
{
    return dnnl_memory_desc_create_with_tag(d, ndims, extent, type, dnnl_format_tag_any) == dnnl_success;
}

static inline bool weft_dnnl_describe_part(weft_dnnl_description *d, weft_dnnl_borrowed whole,
                                           const dnnl_dims_t extent, const dnnl_dims_t offset)
{
    return dnnl_memory_desc_create_submemory(d, whole, extent, offset) == dnnl_success;
}

static inline bool weft_dnnl_copy_description(weft_dnnl_description *d, weft_dnnl_borrowed from)
{
    return dnnl_memory_desc_clone(d, from) == dnnl_success;
}

static inline void weft_dnnl_forget(weft_dnnl_description *d)
{
    dnnl_memory_desc_destroy(*d);
}

static inline bool weft_dnnl_append_sum(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_sum(after, factor, 0, dnnl_data_type_undef) == dnnl_success;
}

static inline bool weft_dnnl_append_factor(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_eltwise(after, dnnl_eltwise_linear, factor, 0) == dnnl_success;
}

static inline bool weft_dnnl_plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                          const weft_dnnl_description side[3],
                                          dnnl_primitive_attr_t attributes)
{
    return dnnl_matmul_primitive_desc_create(plan, engine, side[0], side[1], NULL, side[2], attributes) ==
           dnnl_success;
}

/* bias: NULL without one. */
static inline bool weft_dnnl_plan_forward(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                          const weft_dnnl_description side[3],
                                          const weft_dnnl_description *bias, const weft_dnnl_window *w,
                                          dnnl_primitive_attr_t attributes)
{
    return dnnl_convolution_forward_primitive_desc_create(
               plan, engine, dnnl_forward_inference, dnnl_convolution_direct, side[0], side[1],
               bias == NULL ? NULL : *bias, side[2], w->strides, w->dilations, w->before, w->after,
               attributes) == dnnl_success;
}

static inline bool weft_dnnl_plan_backward_input(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                 const weft_dnnl_description side[3],
                                                 const weft_dnnl_window *w, dnnl_primitive_attr_t attributes)
{
    return dnnl_convolution_backward_data_primitive_desc_create(
               plan, engine, dnnl_convolution_direct, side[0], side[1], side[2], w->strides, w->dilations,
               w->before, w->after, NULL, attributes) == dnnl_success;
}

static inline bool weft_dnnl_plan_backward_weight(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                  const weft_dnnl_description side[3],
                                                  const weft_dnnl_window *w, dnnl_primitive_attr_t attributes)
{
    return dnnl_convolution_backward_weights_primitive_desc_create(
               plan, engine, dnnl_convolution_direct, side[0], side[1], NULL, side[2], w->strides,
               w->dilations, w->before, w->after, NULL, attributes) == dnnl_success;
}
#else
typedef dnnl_memory_desc_t weft_dnnl_description;
typedef const dnnl_memory_desc_t *weft_dnnl_borrowed;

static inline weft_dnnl_borrowed weft_dnnl_borrow(const weft_dnnl_description *d)
{
    return d;
}

static inline bool weft_dnnl_describe(weft_dnnl_description *d, int ndims, const dnnl_dims_t extent,
                                      dnnl_data_type_t type, const dnnl_dims_t stride)
{
    return dnnl_memory_desc_init_by_strides(d, ndims, extent, type, stride) == dnnl_success;
}

static inline bool weft_dnnl_describe_any(weft_dnnl_description *d, int ndims, const dnnl_dims_t extent,
                                          dnnl_data_type_t type)
{
    return dnnl_memory_desc_init_by_tag(d, ndims, extent, type, dnnl_format_tag_any) == dnnl_success;
}

static inline bool weft_dnnl_describe_part(weft_dnnl_description *d, weft_dnnl_borrowed whole,
                                           const dnnl_dims_t extent, const dnnl_dims_t offset)
{
    return dnnl_memory_desc_init_submemory(d, whole, extent, offset) == dnnl_success;
}

static inline bool weft_dnnl_copy_description(weft_dnnl_description *d, weft_dnnl_borrowed from)
{
    *d = *from;
    return true;
}

static inline void weft_dnnl_forget(weft_dnnl_description *d)
{
    (void)d;
}

static inline bool weft_dnnl_append_sum(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_sum(after, factor) == dnnl_success;
}

static inline bool weft_dnnl_append_factor(dnnl_post_ops_t after, float factor)
{
    return dnnl_post_ops_append_eltwise(after, 1, dnnl_eltwise_linear, factor, 0) == dnnl_success;
}

static inline bool weft_dnnl_plan_product(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                          const weft_dnnl_description side[3],
                                          dnnl_primitive_attr_t attributes)
{
    dnnl_matmul_desc_t product;
    return dnnl_matmul_desc_init(&product, &side[0], &side[1], NULL, &side[2]) == dnnl_success &&
           dnnl_primitive_desc_create(plan, &product, attributes, engine, NULL) == dnnl_success;
}

static inline bool weft_dnnl_plan_forward(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                          const weft_dnnl_description side[3],
                                          const weft_dnnl_description *bias, const weft_dnnl_window *w,
                                          dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t c;
    return dnnl_dilated_convolution_forward_desc_init(&c, dnnl_forward_inference, dnnl_convolution_direct,
                                                      &side[0], &side[1], bias, &side[2], w->strides,
                                                      w->dilations, w->before, w->after) == dnnl_success &&
           dnnl_primitive_desc_create(plan, &c, attributes, engine, NULL) == dnnl_success;
}

static inline bool weft_dnnl_plan_backward_input(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                 const weft_dnnl_description side[3],
                                                 const weft_dnnl_window *w, dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t c;
    return dnnl_dilated_convolution_backward_data_desc_init(&c, dnnl_convolution_direct, &side[0], &side[1],
                                                            &side[2], w->strides, w->dilations, w->before,
                                                            w->after) == dnnl_success &&
           dnnl_primitive_desc_create(plan, &c, attributes, engine, NULL) == dnnl_success;
}

static inline bool weft_dnnl_plan_backward_weight(dnnl_primitive_desc_t *plan, dnnl_engine_t engine,
                                                  const weft_dnnl_description side[3],
                                                  const weft_dnnl_window *w, dnnl_primitive_attr_t attributes)
{
    dnnl_convolution_desc_t c;
    return dnnl_dilated_convolution_backward_weights_desc_init(
               &c, dnnl_convolution_direct, &side[0], &side[1], NULL, &side[2], w->strides, w->dilations,
               w->before, w->after) == dnnl_success &&
           dnnl_primitive_desc_create(plan, &c, attributes, engine, NULL) == dnnl_success;
}
#endif

/* ---- threads and instructions -------------------------------------------------------------------------- */

/* Where oneDNN's threads are OpenMP's. */
extern int omp_get_max_threads(void) __attribute__((weak));
extern void omp_set_num_threads(int threads) __attribute__((weak));

/* Sets the number of threads of the calling thread's next primitives; returns the former one. */
static inline int weft_dnnl_use_threads(int threads)
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

/* Whether oneDNN can be limited to the calling thread: StarPU's workers are the threads. Its sequential runtime has no other
 * one, OpenMP's takes a number, the others have no such setting. */
static inline bool weft_dnnl_has_one_thread(void)
{
    unsigned runtime = dnnl_version()->cpu_runtime;
    return runtime == DNNL_RUNTIME_SEQ || (runtime == DNNL_RUNTIME_OMP && omp_set_num_threads != NULL);
}

static inline bool weft_dnnl_has(dnnl_cpu_isa_t wanted)
{
    return ((int)dnnl_get_effective_cpu_isa() & (int)wanted) == (int)wanted;
}

/* ---- primitives and memory ----------------------------------------------------------------------------- */

/* Whether a primitive is made of generated code: oneDNN's plain loops, and its calls of other products, have no advantage. */
static inline bool weft_dnnl_is_generated(const_dnnl_primitive_desc_t plan)
{
    const char *name = NULL;
    return dnnl_primitive_desc_query(plan, dnnl_query_impl_info_str, 0, (void *)&name) == dnnl_success && name != NULL &&
           (strncmp(name, "jit", 3) == 0 || strncmp(name, "br", 2) == 0);
}

/* Copies between two descriptions' orders. */
static inline bool weft_dnnl_reorder(dnnl_engine_t engine, dnnl_stream_t stream, weft_dnnl_borrowed from, void *from_bytes,
                                     weft_dnnl_borrowed to, void *to_bytes)
{
    dnnl_primitive_desc_t plan = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t a = NULL, b = NULL;
    bool done = dnnl_reorder_primitive_desc_create(&plan, from, engine, to, engine, NULL) == dnnl_success &&
                dnnl_primitive_create(&primitive, plan) == dnnl_success &&
                dnnl_memory_create(&a, from, engine, from_bytes) == dnnl_success &&
                dnnl_memory_create(&b, to, engine, to_bytes) == dnnl_success;
    const dnnl_exec_arg_t arguments[] = { { DNNL_ARG_FROM, a }, { DNNL_ARG_TO, b } };
    done = done && dnnl_primitive_execute(primitive, stream, 2, arguments) == dnnl_success &&
           dnnl_stream_wait(stream) == dnnl_success;
    dnnl_memory_destroy(a);
    dnnl_memory_destroy(b);
    dnnl_primitive_destroy(primitive);
    dnnl_primitive_desc_destroy(plan);
    return done;
}

/* Memory that begins with a line of the caches, or NULL. */
static inline void *weft_dnnl_allocate(size_t size)
{
    enum { LINE = 64 };
    return aligned_alloc(LINE, (size + LINE - 1) / LINE * LINE);
}

#endif
