/* Each process writes its ranks' shards into an image of the whole tensor, and reads its ranks' parts once
 * all have written. There are two images, used in turn: a process that writes the next one has read the
 * last but one, as have all others, because it has seen them arrive at the last one. */
#define _DEFAULT_SOURCE /* MAP_ANONYMOUS */
#include "all_gather.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { IMAGE_BYTES = 1 << 20, IMAGES = 2 };

/* Shared. */
typedef struct board {
    atomic_ullong arrived; /* processes, at all stages together */
    char images[IMAGES][IMAGE_BYTES];
} board;

static board *the_board;
static unsigned long long processes, done; /* stages, in all worlds */

/* The transport whose messages go on as before. */
static weft_data below;
static const weft_stage_work *work; /* NULL: none is under way */
static void *work_token;
static struct {
    const weft_stage_work *work;
    void *token;
} waiting[64]; /* their turn comes later */
static int num_waiting;

bool all_gather_make(int count)
{
    processes = (unsigned long long)count;
    the_board = mmap(NULL, sizeof(*the_board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return the_board != MAP_FAILED;
}

uint64_t all_gather_count(void)
{
    return done;
}

/* Copies a panel to or from the image, one element after the other. */
static void copy_panel(const weft_stage_panel *p, const weft_stage *stage, char *image)
{
    const weft_layout *layout = p->target ? stage->to : stage->from;
    int64_t size = (int64_t)weft_dtype_size(layout->dtype);
    weft_box box;
    weft_layout_shard_box(layout, p->rank, &box);
    for (int64_t at = 0; at < p->bytes; at += size) {
        int64_t rest = (p->first + at) / size, element = 0, step = 1;
        for (int d = layout->ndim - 1; d >= 0; d--) {
            element += (box.offset[d] + rest % box.extent[d]) * step;
            rest /= box.extent[d];
            step *= layout->shape[d];
        }
        char *global = image + element * size;
        memcpy(p->target ? p->memory + at : global, p->target ? global : p->memory + at, (size_t)size);
    }
}

static void copy_panels(bool target)
{
    for (int i = 0; i < work->count; i++) {
        if (work->panels[i].target == target) {
            copy_panel(&work->panels[i], work->stage, the_board->images[done % IMAGES]);
        }
    }
}

/* All hold the same values of one element: nothing is Partial. */
static bool claims(void *state, const weft_stage *stage, weft_stage_kind kind, const bool along[])
{
    (void)state;
    (void)along;
    int64_t bytes = (int64_t)weft_dtype_size(stage->to->dtype);
    for (int d = 0; d < stage->to->ndim; d++) {
        if (!weft_mul_checked(bytes, stage->to->shape[d], &bytes)) {
            return false;
        }
    }
    return kind == WEFT_STAGE_ALL_GATHER && !stage->from->has_partial && bytes <= IMAGE_BYTES;
}

static void begin(const weft_stage_work *next, void *token)
{
    work = next;
    work_token = token;
    copy_panels(false);
    the_board->arrived++;
}

static weft_status start_stage(void *state, const weft_stage_work *next, void *token)
{
    (void)state;
    if (work == NULL) {
        begin(next, token);
        return WEFT_OK;
    }
    if (num_waiting == (int)WEFT_ARRAY_SIZE(waiting)) {
        return WEFT_ERR_NOMEM;
    }
    waiting[num_waiting].work = next;
    waiting[num_waiting++].token = token;
    return WEFT_OK;
}

static int poll_stages(void *state, weft_finished finished[], int max)
{
    int count = 0;
    while (work != NULL && count < max && the_board->arrived >= (done + 1) * processes) {
        copy_panels(true);
        finished[count++] = (weft_finished){ work_token, WEFT_OK };
        done++;
        work = NULL;
        if (num_waiting > 0) {
            const weft_stage_work *next = waiting[0].work;
            void *token = waiting[0].token;
            memmove(waiting, waiting + 1, (size_t)--num_waiting * sizeof(waiting[0]));
            begin(next, token);
        }
    }
    return count + below.poll(state, finished + count, max - count);
}

void all_gather_add(weft_transport *transport)
{
    below = transport->data;
    transport->data.claims = claims;
    transport->data.start_stage = start_stage;
    transport->data.poll = poll_stages;
}
