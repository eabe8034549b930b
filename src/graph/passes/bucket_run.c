/* Running buckets: a task of each rank that packs, one redistribution, and views of its result or tasks that unpack. */
#include <stdlib.h>
#include <string.h>

#include "comm/check_spmd.h"
#include "graph/passes/bucket.h"
#include "runtime/codelets.h"
#include "tensor/state.h"
#include "tensor/submit.h"

/* ---- the kernel ------------------------------------------------------------------------------------------ */

typedef struct bucket_args {
    weft_task_args base; /* must be the first member */
    weft_bucket *bucket;
    const weft_bucket_part *part;
    bool packs;
} bucket_args;

/* Rows have gaps after tensors: zeros, so that reductions read defined values. */
static void clear_flat(const weft_task_run *run, const weft_bucket_part *part)
{
    for (int i = part->first_flat; i < part->num_operands; i++) {
        memset(run->operands[i], 0, (size_t)part->flat_bytes[i - part->first_flat]);
    }
}

static void run_part(const weft_task_run *run)
{
    const bucket_args *args = run->arguments;
    const weft_bucket_copy *copies = args->part->copies.items;
    if (args->packs) {
        clear_flat(run, args->part);
    }
    for (size_t i = 0; i < args->part->copies.count; i++) {
        char *flat = (char *)run->operands[copies[i].flat] + copies[i].flat_offset;
        if (args->packs) {
            weft_region_read(&copies[i].region, run->operands[copies[i].operand], flat);
        } else {
            weft_region_write(&copies[i].region, run->operands[copies[i].operand], flat);
        }
    }
    weft_bucket_release(args->bucket);
}

static uint32_t footprint(const weft_task_run *run)
{
    const bucket_args *args = run->arguments;
    return (uint32_t)weft_hash_u64((uint64_t)args->part->copies.count << 33 ^ (uint64_t)args->part->flat_bytes[0] << 1 ^
                                   args->packs);
}

/* WEFT_KERNEL_NONE: no memory. */
static weft_kernel_id kernel(void)
{
    weft_runtime_state *state = &weft_runtime;
    if (state->bucket_kernel == WEFT_KERNEL_NONE) {
        const weft_own_kernel own = { .name = "bucket", .run = run_part, .footprint = footprint };
        state->bucket_kernel = weft_codelet_register_run(&own);
    }
    return state->bucket_kernel;
}

void weft_bucket_hold(const void *arguments)
{
    atomic_fetch_add(&((const bucket_args *)arguments)->bucket->references, 1);
}

/* ---- submission ------------------------------------------------------------------------------------------ */

static int bind_panels(const weft_local_shard *shard, enum starpu_data_access_mode mode, weft_bound_operand operands[])
{
    int count = shard->count == 0 ? 0 : (int)shard->num_panels;
    for (int i = 0; i < count; i++) {
        operands[i] = weft_bound(&shard->panels[i], 0, mode);
    }
    return count;
}

/* The task of one rank, if it has a part. False with the error kept. */
static bool submit_part(const char *function, weft_bucket *bucket, const weft_bucket_part *part, int shard, bool packs,
                        weft_tensor_impl *const tensors[], const weft_tensor_impl *flat)
{
    if (part->num_operands == 0) {
        return true;
    }
    weft_bound_operand *operands = malloc((size_t)part->num_operands * sizeof(*operands));
    if (operands == NULL || kernel() == WEFT_KERNEL_NONE) {
        free(operands);
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for redistributions that travel together");
        return false;
    }
    int count = 0;
    for (int i = 0; i < bucket->num_tensors; i++) {
        count += bind_panels(&tensors[i]->shards[shard], packs ? STARPU_R : STARPU_W, operands + count);
    }
    bind_panels(&flat->shards[shard], packs ? STARPU_W : STARPU_R, operands + count);
    bucket_args args = { .base.dtype = flat->layout->dtype, .bucket = bucket, .part = part, .packs = packs };
    atomic_fetch_add(&bucket->references, 1);
    bool done = weft_task_submit(&(weft_single_task){ .kernel = kernel(),
                                                      .name = packs ? "pack" : "unpack",
                                                      .function = function,
                                                      .arguments = &args,
                                                      .arguments_size = sizeof(args),
                                                      .num_operands = part->num_operands,
                                                      .operands = operands });
    if (!done || weft_runtime.context.rehearsal != NULL) { /* the kernel does not run */
        weft_bucket_release(bucket);
    }
    free(operands);
    return done;
}

/* A tensor of the bucket on the flat one's memory. NULL with the error kept. */
static weft_tensor_impl *view(const char *function, const weft_bucket *bucket, int number, const weft_tensor_impl *flat)
{
    const weft_layout *layout = bucket->to[number];
    weft_tensor_impl *tensor = weft_tensor_allocate(function, layout);
    bool done = tensor != NULL;
    for (int i = 0; done && i < tensor->num_shards; i++) {
        int64_t offset = bucket->offsets[number] * (int64_t)weft_dtype_size(layout->dtype);
        done = tensor->shards[i].count == 0 ||
               weft_shard_view(layout, &tensor->shards[i], flat, &flat->shards[i], offset);
    }
    if (!done || !weft_tensor_register(function, tensor)) {
        if (tensor != NULL) {
            weft_tensor_delete(tensor);
        }
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a tensor");
        return NULL;
    }
    return tensor;
}

/* False with the error kept. */
static bool take_apart(const char *function, weft_bucket *bucket, const weft_tensor_impl *flat, weft_tensor_impl *results[])
{
    bool done = true;
    for (int i = 0; i < bucket->num_tensors && done; i++) {
        results[i] = bucket->views ? view(function, bucket, i, flat) : weft_tensor_new(function, bucket->to[i]);
        done = results[i] != NULL;
    }
    for (int i = 0; i < bucket->num_shards && done && !bucket->views; i++) {
        done = submit_part(function, bucket, &bucket->unpacks[i], i, false, results, flat);
    }
    return done;
}

static bool redistribute(const char *function, weft_bucket *bucket, weft_tensor_impl *const tensors[],
                         weft_tensor_impl *results[])
{
    weft_tensor_impl *flat = weft_tensor_new(function, bucket->flat_from);
    bool done = flat != NULL;
    weft_runtime.operations++;
    for (int i = 0; i < bucket->num_shards && done; i++) {
        done = submit_part(function, bucket, &bucket->packs[i], i, true, tensors, flat);
    }
    weft_tensor_impl *moved = done ? weft_tensor_to_layout(function, flat, bucket->flat_to) : NULL;
    weft_runtime.operations++;
    return moved != NULL && take_apart(function, bucket, moved, results);
}

static weft_status perform(const weft_call *call, weft_tensor *outputs[])
{
    weft_bucket *bucket = call->details->memory;
    size_t count = (size_t)bucket->num_tensors;
    const weft_layout *layouts[] = { bucket->flat_from, bucket->flat_to };
    if (!weft_check_spmd(&(weft_call_signature){ .function = call->function, .num_layouts = 2, .layouts = layouts })) {
        return weft_latest_status();
    }
    weft_tensor_impl **tensors = calloc(2 * count, sizeof(weft_tensor_impl *));
    if (tensors == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, call->function, "no memory for %zu tensors", count);
    }
    for (size_t i = 0; i < count; i++) {
        tensors[i] = weft_tensor_get(call->details->tensors[i]);
    }
    bool done = redistribute(call->function, bucket, tensors, tensors + count);
    for (size_t i = 0; i < count && done; i++) {
        outputs[i] = tensors[count + i]->handle;
    }
    free(tensors);
    return done ? WEFT_OK : weft_latest_status();
}

const weft_operation weft_action_bucket = {
    .name = "redistribute_together", .perform = perform, .num_outputs = 1, .effects = WEFT_MAKES | WEFT_MOVES
};
