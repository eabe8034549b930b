#include "comm_support.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/pending.h"

/* ---- a transport to oneself ---------------------------------------------------------------------------- */

void move_region(const weft_region *region, char *memory, char *packed, bool unpack)
{
    int64_t runs = weft_region_bytes(region) / (region->run_bytes > 0 ? region->run_bytes : 1);
    for (int64_t i = 0; i < runs; i++) {
        int64_t rest = i, place = region->offset;
        for (int d = region->ndim - 1; d >= 0; d--) {
            place += rest % region->count[d] * region->stride[d];
            rest /= region->count[d];
        }
        char *run = memory + place;
        memcpy(unpack ? run : packed, unpack ? packed : run, (size_t)region->run_bytes);
        packed += region->run_bytes;
    }
}

static weft_status loopback_start(void *state, const weft_message *message, bool receive, void *memory,
                                  void *token)
{
    loopback *self = state;
    if (self->fail_start >= 0 && message->tag == (uint32_t)self->fail_start) {
        return WEFT_ERR_COMM;
    }
    for (int i = 0; i < MAX_POSTED; i++) {
        if (!self->all[i].used) {
            self->all[i] =
                (posted){ true, receive, *message, memory, token, (int)prng_below(&self->random, 4) };
            return WEFT_OK;
        }
    }
    return WEFT_ERR_NOMEM;
}

static posted *partner(loopback *self, const posted *p)
{
    for (int i = 0; i < MAX_POSTED; i++) {
        posted *q = &self->all[i];
        if (q->used && q->receive != p->receive && q->message.tag == p->message.tag) {
            return q;
        }
    }
    return NULL;
}

static int loopback_poll(void *state, weft_finished finished[], int max)
{
    loopback *self = state;
    int count = 0;
    if (self->gap_us > 0) {
        max = starpu_timing_now() - self->last_end_us < self->gap_us ? 0 : 2;
    }
    for (int i = 0; i < MAX_POSTED && count + 2 <= max; i++) {
        posted *send = &self->all[i];
        if (!send->used || send->receive || send->delay-- > 0) {
            continue;
        }
        posted *receive = partner(self, send);
        if (receive == NULL) {
            continue;
        }
        char *packed = malloc((size_t)send->message.bytes + 1);
        move_region(&send->message.region, send->memory, packed, false);
        move_region(&receive->message.region, receive->memory, packed, true);
        free(packed);
        bool fails = self->fail_end >= 0 && send->message.tag == (uint32_t)self->fail_end;
        finished[count++] = (weft_finished){ receive->token, fails ? WEFT_ERR_COMM : WEFT_OK };
        finished[count++] = (weft_finished){ send->token, WEFT_OK };
        send->used = receive->used = false;
        self->last_end_us = starpu_timing_now();
    }
    return count;
}

static void loopback_abandon(void *state)
{
    loopback *self = state;
    self->abandoned = true;
    for (int i = 0; i < MAX_POSTED; i++) {
        self->all[i].used = false;
    }
}

static void loopback_close(void *state)
{
    ((loopback *)state)->closed = true;
}

loopback the_loopback;

weft_transport loopback_transport(void)
{
    memset(&the_loopback, 0, sizeof(the_loopback));
    the_loopback.fail_start = the_loopback.fail_end = -1;
    the_loopback.random.state = 7;
    return (weft_transport){
        .name = "loopback",
        .place = { 0, 1, 0, 1 },
        .data = { .state = &the_loopback,
                  .memories = 1u << STARPU_CPU_RAM,
                  .start = loopback_start,
                  .poll = loopback_poll,
                  .abandon = loopback_abandon,
                  .close = loopback_close },
    };
}

weft_comm *start_engine_with(double timeout_s)
{
    weft_unbreak(); /* an earlier test's world */
    weft_comm *comm = weft_comm_start("test", loopback_transport(), timeout_s);
    assert_non_null(comm);
    return comm;
}

weft_comm *start_engine(void)
{
    return start_engine_with(0);
}

/* ---- StarPU around it ---------------------------------------------------------------------------------- */

int start_starpu(void **state)
{
    (void)state;
    struct starpu_conf conf;
    starpu_conf_init(&conf);
    conf.ncpus = 3;
    conf.ncuda = 0;
    conf.nopencl = 0;
    weft_runtime.pending = weft_pending_new(0);
    return weft_runtime.pending == NULL ? -1 : starpu_init(&conf);
}

int stop_starpu(void **state)
{
    (void)state;
    starpu_shutdown();
    weft_pending_delete(weft_runtime.pending);
    return 0;
}

static void add_one(void *buffers[], void *argument)
{
    (void)argument;
    int *values = (int *)STARPU_VARIABLE_GET_PTR(buffers[0]);
    size_t count = STARPU_VARIABLE_GET_ELEMSIZE(buffers[0]) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
        values[i]++;
    }
}

static struct starpu_codelet add_one_codelet = { .cpu_funcs = { add_one },
                                                 .nbuffers = 1,
                                                 .modes = { STARPU_RW } };

void submit_add_one(starpu_data_handle_t handle)
{
    assert_int_equal(starpu_task_insert(&add_one_codelet, STARPU_RW, handle, 0), 0);
}

weft_message plain_message(uint32_t tag, int64_t bytes)
{
    return (weft_message){ .peer = 0, .tag = tag, .region = { .run_bytes = bytes }, .bytes = bytes };
}

void assert_pending_says(weft_comm *comm, const char *first, const char *second)
{
    char *text = NULL;
    size_t size = 0;
    FILE *file = open_memstream(&text, &size);
    assert_non_null(file);
    weft_comm_print_pending(comm, file);
    fclose(file);
    assert_non_null(strstr(text, first));
    assert_non_null(strstr(text, second));
    free(text);
}
