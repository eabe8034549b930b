/* Submits the steps of an exchange for one pair of tensors. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "tensor/exchange_steps.h"
#include "tensor/run.h"
#include "tensor/state.h"

typedef struct run {
    const char *function;
    const weft_exchange *exchange;
    const weft_tensor_impl *source;
    weft_tensor_impl *target;
    weft_buffer **landings;
    weft_message *messages; /* room for the largest step's */
} run;

static weft_panel panel_at(const run *r, place p)
{
    const weft_tensor_impl *tensor = p.in_target ? r->target : r->source;
    return p.shard < 0 ? r->landings[p.panel]->panels[0] : tensor->shards[p.shard].panels[p.panel];
}

static bool run_transfer(const run *r, const exchange_step *s)
{
    const weft_exchange *exchange = r->exchange;
    const tag_range *ranges = s->kind == SEND ? exchange->sends : exchange->receives;
    weft_panel panel = panel_at(r, s->target);
    uint64_t calls = weft_digest_add(weft_runtime.digest, exchange->digest);
    if (s->kind == SEND && !s->target.in_target) {
        r->source->shards[s->target.shard].buffer->sends++;
    }
    for (int i = 0; i < s->count; i++) {
        r->messages[i] = s->messages[i];
        r->messages[i].tag += ranges[s->messages[i].peer].first;
        r->messages[i].region.offset += panel.offset;
        r->messages[i].calls = calls;
    }
    weft_acquired_follow_transfer(panel.handle, s->kind != SEND, weft_comm_pending_tasks(s->count));
    return weft_comm_submit(weft_runtime.comm, panel.handle, s->kind != SEND, s->whole, s->count, r->messages,
                            s->target.in_target ? r->target->layout : r->source->layout,
                            weft_tensor_label(r->source));
}

/* A tensor redistributed into one that shares memory with it has its own values there already. */
static bool same_memory(weft_panel a, int64_t a_offset, weft_panel b, int64_t b_offset)
{
    return a.handle == b.handle && a.offset + a_offset == b.offset + b_offset;
}

static bool submit(const run *r, const exchange_step *s, weft_kernel_id kernel,
                   const void *arguments, size_t size, int num_operands, const weft_bound_operand operands[])
{
    return weft_task_submit(&(weft_single_task){ .kernel = kernel,
                                                 .name = s->kind == COPY ? "copy" : "reduce",
                                                 .function = r->function,
                                                 .arguments = arguments,
                                                 .arguments_size = size,
                                                 .num_operands = num_operands,
                                                 .operands = operands,
                                                 .position = s->position });
}

static bool run_copy(const run *r, const exchange_step *s)
{
    weft_panel target = panel_at(r, s->target);
    weft_copy_args args;
    const weft_copy_args *like = &s->args->copy;
    args.base.dtype = r->exchange->stage.from->dtype;
    args.element_size = like->element_size;
    args.streams = r->exchange->streams;
    weft_bound_operand operands[WEFT_MAX_OPERANDS];
    operands[0] = weft_bound(&target, 0, s->whole ? STARPU_W : STARPU_RW);
    int count = 0;
    for (int i = 0; i < s->count; i++) {
        weft_panel source = panel_at(r, s->sources[i]);
        int64_t offset = s->offsets[i + 1];
        if (same_memory(source, offset, target, like->target_offset[i])) {
            continue;
        }
        args.target_offset[count] = like->target_offset[i];
        args.boxes[count++] = like->boxes[i];
        operands[count] = weft_bound(&source, offset, STARPU_R);
    }
    return count == 0 || submit(r, s, WEFT_KERNEL_copy, &args,
                                offsetof(weft_copy_args, boxes) + (size_t)count * sizeof(args.boxes[0]),
                                1 + count, operands);
}

static bool run_reduce(const run *r, const exchange_step *s)
{
    weft_panel target = panel_at(r, s->target);
    weft_bound_operand operands[WEFT_MAX_OPERANDS];
    operands[0] = weft_bound(&target, s->offsets[0], s->whole ? STARPU_W : STARPU_RW);
    for (int i = 0; i < s->count; i++) {
        weft_panel source = panel_at(r, s->sources[i]);
        operands[i + 1] = weft_bound(&source, s->offsets[i + 1], STARPU_R);
    }
    return submit(r, s, WEFT_KERNEL_reduce, &s->args->reduce,
                  offsetof(weft_reduce_args, boxes) + (size_t)s->count * sizeof(s->args->reduce.boxes[0]),
                  1 + s->count, operands);
}

static bool run_steps(const run *r)
{
    const exchange_step *steps = r->exchange->steps.items;
    bool done = true;
    for (size_t i = 0; i < r->exchange->steps.count && done; i++) {
        const exchange_step *s = &steps[i];
        done = s->kind == COPY ? run_copy(r, s) : s->kind == REDUCE ? run_reduce(r, s) : run_transfer(r, s);
    }
    return done;
}

static void reserve_tags(const weft_exchange *exchange)
{
    for (int p = 0; p < weft_runtime.num_processes; p++) {
        tag_range *send = &exchange->sends[p], *receive = &exchange->receives[p];
        if (send->count > 0) {
            send->first = weft_comm_reserve(weft_runtime.comm, p, false, send->count);
        }
        if (receive->count > 0) {
            receive->first = weft_comm_reserve(weft_runtime.comm, p, true, receive->count);
        }
    }
}

/* Landing buffers go back to the pool at once: StarPU orders their next use after this one. */
static bool obtain_landings(run *r)
{
    const landing *all = r->exchange->landings.items;
    for (size_t i = 0; i < r->exchange->landings.count; i++) {
        int64_t bytes = all[i].bytes;
        r->landings[i] = weft_buffer_new(weft_runtime.pool, (weft_cut){ bytes, bytes, bytes });
        if (r->landings[i] == NULL) {
            return false;
        }
    }
    return true;
}

/* Before anything is sent: a send of an older call may be waited for, one of this call not, for others may wait
 * for what comes after it (comm/sends.h). */
static void renew_source(const weft_tensor_impl *source)
{
    for (int i = 0; i < source->num_shards; i++) {
        if (source->shards[i].count > 0) {
            weft_buffer_renew_when_due(source->shards[i].buffer);
        }
    }
}

bool weft_exchange_run(const char *function, const weft_exchange *exchange, const weft_tensor_impl *source,
                       weft_tensor_impl *target)
{
    run r = { function, exchange, source, target, NULL, NULL };
    r.landings = calloc(exchange->landings.count + 1, sizeof(*r.landings));
    r.messages = malloc(((size_t)exchange->max_messages + 1) * sizeof(*r.messages));
    bool done = r.landings != NULL && r.messages != NULL && obtain_landings(&r);
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for a redistribution");
    } else {
        weft_runtime.operations++;
        renew_source(source);
        reserve_tags(exchange);
        done = run_steps(&r);
        weft_runtime.counters.transfers += exchange->transfers;
        weft_runtime.counters.bytes_moved += exchange->bytes;
        weft_runtime.counters.messages += exchange->messages;
    }
    for (size_t i = 0; r.landings != NULL && i < exchange->landings.count; i++) {
        weft_buffer_release(r.landings[i]);
    }
    free(r.landings);
    free(r.messages);
    return done;
}
