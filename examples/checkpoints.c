#include "checkpoints.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "arguments.h"

enum { MAX_RANKS = 64 * 64 };

void checkpoints_end(checkpoints *c)
{
    if (c->saving != NULL) {
        weft_checkpoint_wait(c->saving);
        c->saving = NULL;
    }
}

void checkpoints_save(checkpoints *c, const char *path, int64_t step)
{
    char text[24];
    const char *keys[] = { "step" }, *values[] = { text };
    const weft_checkpoint_options options = { .num_entries = 1, .keys = keys, .values = values, .random_states = true }; /* random states too */
    bool all = step > 0;
    snprintf(text, sizeof(text), "%lld", (long long)step);
    checkpoints_end(c);
    c->saving = weft_checkpoint_save_async(path, all ? c->num_tensors : c->num_weights, c->names, c->tensors,
                                           all ? &options : NULL);
}

static volatile sig_atomic_t asked; /* since the last look */

static void note_signal(int number)
{
    (void)number;
    asked = 1;
}

void checkpoints_heed_signal(void)
{
    struct sigaction action;
    memset(&action, 0, sizeof(action));
    action.sa_handler = note_signal;
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR1, &action, NULL);
}

/* A tensor of addends, one for each rank: the first rank of a process has its answer. */
weft_tensor *checkpoints_asked(void)
{
    const weft_placement addends[] = { weft_partial(WEFT_SUM), weft_partial(WEFT_SUM) };
    float answer = asked != 0, none = 0;
    void *answers[MAX_RANKS];
    asked = 0;
    for (int i = 0; i < weft_local_ranks(); i++) {
        answers[i] = i == 0 ? &answer : &none;
    }
    return weft_redistribute(weft_from_local(WEFT_F32, 0, NULL, answers, NULL, addends, WEFT_COPY), NULL, NULL);
}

bool checkpoints_load(checkpoints *c, const char *path, int64_t steps, int64_t *step, const char *program)
{
    weft_checkpoint_file *file = weft_checkpoint_open(path);
    const char *made = weft_checkpoint_metadata(file, "step");
    bool resumes = made != NULL, known = !resumes || integer_read(made, 0, steps, step);
    if (resumes && known) {
        weft_checkpoint_random_states(file);
    } else if (!known && weft_process_index() == 0) {
        fprintf(stderr, "%s: --load %s: %s steps were made, and --steps is %lld\n", program, path, made,
                (long long)steps);
    }
    weft_checkpoint_close(file);
    if (known && weft_last_status() == WEFT_OK) {
        weft_no_grad_begin();
        weft_checkpoint_load(path, resumes ? c->num_tensors : c->num_weights, c->names, c->tensors);
        weft_no_grad_end();
    }
    return known && weft_last_status() == WEFT_OK;
}
