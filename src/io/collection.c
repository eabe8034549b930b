#include "io/collection.h"

#include <stdlib.h>

#include "runtime/runtime.h"

/* Memory that messages travel from or to. While the program's side has it, messages wait. */
typedef struct mailbox {
    int64_t *numbers;
    starpu_data_handle_t handle; /* NULL: one process, no messages */
} mailbox;

struct weft_collection {
    int64_t count, num_answers;
    mailbox mine;   /* of a process but 0: sent */
    mailbox all;    /* of process 0: received; its own part is written when the others' have come */
    mailbox answer; /* sent by process 0 to the others */
};

/* Without StarPU's order of tasks: the order of acquisitions decides, and no task of StarPU's waits for a thread. */
static bool open_box(mailbox *box, int64_t count)
{
    box->numbers = calloc((size_t)count + 1, sizeof(*box->numbers));
    if (box->numbers != NULL && weft_runtime.num_processes > 1) {
        starpu_variable_data_register(&box->handle, STARPU_MAIN_RAM, (uintptr_t)box->numbers,
                                      ((size_t)count + 1) * sizeof(*box->numbers));
        starpu_data_set_sequential_consistency_flag(box->handle, 0);
    }
    return box->numbers != NULL;
}

/* Memory of a broken world may be written by messages that could not be cancelled. */
static void close_box(mailbox *box)
{
    if (box->handle != NULL) {
        starpu_data_unregister_no_coherency(box->handle);
    }
    if (box->handle == NULL || !weft_is_broken()) {
        free(box->numbers);
    }
}

static void acquire(mailbox *box, enum starpu_data_access_mode mode)
{
    if (box->handle != NULL) {
        starpu_data_acquire_on_node(box->handle, STARPU_MAIN_RAM, mode);
    }
}

static void release(mailbox *box)
{
    if (box->handle != NULL) {
        starpu_data_release_on_node(box->handle, STARPU_MAIN_RAM);
    }
}

/* Until the messages on it have ended. */
static void await(mailbox *box)
{
    acquire(box, STARPU_RW);
    release(box);
}

static weft_message message(int peer, bool receive, int64_t first, int64_t count)
{
    int64_t bytes = count * (int64_t)sizeof(int64_t);
    int own = weft_runtime.first_rank, other = weft_runtime.first_rank_of[peer];
    return (weft_message){ .peer = peer,
                           .tag = weft_comm_reserve(weft_runtime.comm, peer, receive, 1),
                           .region = { .offset = first * (int64_t)sizeof(int64_t), .run_bytes = bytes },
                           .bytes = bytes,
                           .source_rank = receive ? other : own,
                           .target_rank = receive ? own : other,
                           .calls = weft_runtime.digest };
}

/* Between this process and one other (`peer`), or between process 0 and all others. False with the error kept. */
static bool submit(mailbox *box, bool receive, int64_t count, bool apart)
{
    int others = weft_runtime.process == 0 ? weft_runtime.num_processes - 1 : 1;
    weft_message *messages = malloc((size_t)others * sizeof(*messages));
    bool done = messages != NULL;
    for (int i = 0; i < others && done; i++) {
        int peer = weft_runtime.process == 0 ? i + 1 : 0;
        messages[i] = message(peer, receive, apart ? peer * count : 0, count);
    }
    done = done && weft_comm_submit(weft_runtime.comm, box->handle, receive, true, others, messages, NULL,
                                    "checkpoint");
    free(messages);
    return done;
}

static bool submit_all(weft_collection *c)
{
    bool first = weft_runtime.process == 0;
    acquire(first ? &c->answer : &c->mine, STARPU_W); /* the thread's, until it has filled it in */
    return first ? submit(&c->all, true, c->count, true) && submit(&c->answer, false, c->num_answers, false)
                 : submit(&c->mine, false, c->count, false) && submit(&c->answer, true, c->num_answers, false);
}

weft_collection *weft_collection_new(const char *function, int64_t count, int64_t num_answers)
{
    weft_collection *c = calloc(1, sizeof(*c));
    bool first = weft_runtime.process == 0, several = weft_runtime.num_processes > 1;
    bool done = c != NULL && open_box(&c->mine, count) && open_box(&c->answer, num_answers) &&
                (!first || open_box(&c->all, count * weft_runtime.num_processes));
    if (!done) {
        weft_fail(WEFT_ERR_NOMEM, function, "no memory for %lld numbers of each process", (long long)count);
        return NULL; /* the world is broken, or ends: messages may be under way */
    }
    c->count = count;
    c->num_answers = num_answers;
    if (several) {
        weft_comm_background(weft_runtime.comm, true);
        done = submit_all(c);
        weft_comm_background(weft_runtime.comm, false);
    }
    return done ? c : NULL;
}

void weft_collection_delete(weft_collection *c)
{
    if (c != NULL) {
        close_box(&c->mine);
        close_box(&c->all);
        close_box(&c->answer);
        free(c);
    }
}

/* ---- the threads ------------------------------------------------------------------------------------------ */

int64_t *weft_collection_mine(weft_collection *c)
{
    return c->mine.numbers;
}

const int64_t *weft_collection_gather(weft_collection *c)
{
    if (weft_runtime.process != 0) {
        release(&c->mine);
        return NULL;
    }
    await(&c->all);
    for (int64_t i = 0; i < c->count; i++) {
        c->all.numbers[i] = c->mine.numbers[i];
    }
    return weft_is_broken() ? NULL : c->all.numbers;
}

int64_t *weft_collection_to_answer(weft_collection *c)
{
    return c->answer.numbers;
}

const int64_t *weft_collection_answer(weft_collection *c)
{
    if (weft_runtime.process == 0) {
        release(&c->answer);
    }
    await(&c->answer);
    if (weft_runtime.process != 0) {
        await(&c->mine);
    }
    return weft_is_broken() ? NULL : c->answer.numbers;
}
