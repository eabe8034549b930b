#include "comm/engine.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/variables.h"

/* "weights f32[8, 8] [S0] on 4" */
static const char *tensor_text(const weft_comm_transfer *t, char *text, size_t size)
{
    char layout[200] = "";
    if (t->layout != NULL) {
        weft_layout_format(t->layout, layout, sizeof(layout));
    }
    snprintf(text, size, "%s%s%s", t->label, t->label[0] != '\0' && t->layout != NULL ? " " : "", layout);
    return text;
}

static const char *call_name(const weft_comm_transfer *t)
{
    return t->call == NULL ? "weft" : t->call;
}

static void print_message(const weft_comm_transfer *t, const weft_message *m, double now_us, FILE *file)
{
    static const char *const phases[] = { "waits for its panel", "ready", "under way" };
    char tensor[256];
    if (t->claimed != NULL) {
        fprintf(file,
                "weft: process %d: stage of transport %s, %s panel of rank %d, %lld bytes, %s, of call %llu, "
                "%s, %s "
                "for %.3f s\n",
                t->comm->transport.place.process, t->comm->transport.name, t->receive ? "target" : "source",
                m->target_rank, (long long)m->bytes, tensor_text(t, tensor, sizeof(tensor)),
                (unsigned long long)t->call_number, call_name(t), phases[t->phase],
                (now_us - t->submitted_us) * 1e-6);
        return;
    }
    fprintf(file,
            "weft: process %d: %s %s process %d, rank %d to rank %d, tag %u, %lld bytes, %s, of call %llu, "
            "%s, %s for %.3f s\n",
            t->comm->transport.place.process, t->receive ? "receive" : "send", t->receive ? "from" : "to",
            m->peer, m->source_rank, m->target_rank, (unsigned)m->tag, (long long)m->bytes,
            tensor_text(t, tensor, sizeof(tensor)), (unsigned long long)t->call_number, call_name(t),
            phases[t->phase], (now_us - t->submitted_us) * 1e-6);
}

/* The mutex is held. The oldest messages that have not ended: a large transfer has thousands, of which the
 * first ones tell most. */
static void print_oldest(const weft_comm *comm, int most, FILE *file)
{
    double now_us = starpu_timing_now();
    int process = comm->transport.place.process;
    int64_t messages = 0;
    fprintf(file, "weft: process %d: %d transfers pending\n", process, comm->pending);
    for (const weft_comm_transfer *t = comm->oldest; t != NULL; t = t->newer) {
        for (int i = 0; i < t->count; i++) {
            bool waits = !t->posted[i].ended;
            if (waits && messages < most) {
                print_message(t, &t->messages[i], now_us, file);
            }
            messages += waits;
        }
    }
    if (messages > most) {
        fprintf(file, "weft: process %d: and %lld more messages\n", process, (long long)messages - most);
    }
}

/* The mutex is held, and released meanwhile: the file may be slow, and StarPU's callbacks need the mutex.
 * So the lines are gathered in memory first. */
void weft_print_pending_locked(weft_comm *comm, FILE *file)
{
    char *text = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&text, &size);
    if (lines != NULL) {
        print_oldest(comm, 20, lines);
    }
    bool complete = lines != NULL && fclose(lines) == 0;
    starpu_pthread_mutex_unlock(&comm->mutex);
    fputs(complete ? text : "weft: no memory to print which messages are pending\n", file);
    fflush(file);
    free(text);
    starpu_pthread_mutex_lock(&comm->mutex);
}

void weft_comm_print_pending(weft_comm *comm, FILE *file)
{
    starpu_pthread_mutex_lock(&comm->mutex);
    weft_print_pending_locked(comm, file);
    starpu_pthread_mutex_unlock(&comm->mutex);
}

int weft_first_unfinished(const weft_comm_transfer *t)
{
    int i = 0;
    while (i < t->count - 1 && t->posted[i].ended) {
        i++;
    }
    return i;
}

const weft_comm_transfer *weft_oldest_granted(const weft_comm *comm, bool receive)
{
    const weft_comm_transfer *t = comm->oldest;
    while (t != NULL && (t->phase == WEFT_SUBMITTED || t->receive != receive)) {
        t = t->newer;
    }
    return t;
}

void weft_break_for(const weft_comm_transfer *t, int message, weft_status status, const char *what)
{
    const weft_message *m = &t->messages[message];
    char tensor[256], who[200];
    tensor_text(t, tensor, sizeof(tensor));
    if (t->claimed != NULL) {
        snprintf(who, sizeof(who), "rank %d waits for a stage that transport %s carries out", m->target_rank,
                 t->comm->transport.name);
    } else if (t->receive) {
        snprintf(who, sizeof(who), "rank %d waits for %lld bytes from rank %d in process %d", m->target_rank,
                 (long long)m->bytes, m->source_rank, m->peer);
    } else {
        snprintf(who, sizeof(who), "rank %d in process %d has not taken %lld bytes from rank %d",
                 m->target_rank, m->peer, (long long)m->bytes, m->source_rank);
    }
    weft_break(status, call_name(t), "call %llu: %s; %s, for %.1f s, of tensor %s",
               (unsigned long long)t->call_number, what, who, (starpu_timing_now() - t->submitted_us) * 1e-6,
               tensor);
}

/* ---- findings ------------------------------------------------------------------------------------------ */

static const char *text_of(const weft_account *accounts, int process, uint64_t call)
{
    const weft_account *account = &accounts[process];
    bool told = account->asked == call && account->calls >= call && account->text[0] != '\0';
    return told ? account->text : "another function";
}

static void describe_difference(const weft_account *accounts, const weft_finding *f, char *text, size_t size)
{
    char first[64], second[64], more[40] = "";
    if (f->count > 1) {
        snprintf(more, sizeof(more), " (not it alone: %d processes)", f->count);
    }
    snprintf(text, size, "call %llu: %s calls %.320s%s, %s calls %.320s%s", (unsigned long long)f->call,
             weft_process_text(f->process, first, sizeof(first)), text_of(accounts, f->process, f->call),
             more, weft_process_text(f->other, second, sizeof(second)), text_of(accounts, f->other, f->call),
             f->earlier ? "; they may have differed before: older calls are not kept, WEFT_CHECK=1 finds them"
                        : "");
}

static void describe_last_call(const weft_account *account, char *text, size_t size)
{
    if (account->calls == 0) {
        snprintf(text, size, "it has made none");
    } else {
        snprintf(text, size, "its last is call %llu, %.320s, %.1f s ago", (unsigned long long)account->calls,
                 account->text, account->since_last_call_s);
    }
}

void weft_finding_text(const weft_account *accounts, const weft_finding *f, char *text, size_t size)
{
    char who[64], other[64], more[40] = "", last[420];
    text[0] = '\0';
    if (f->fault == WEFT_FAULT_DIFFERS) {
        describe_difference(accounts, f, text, size);
        return;
    }
    if (f->process < 0) {
        return;
    }
    weft_process_text(f->process, who, sizeof(who));
    char call[32];
    snprintf(call, sizeof(call), f->call == UINT64_MAX ? "this call" : "call %llu",
             (unsigned long long)f->call);
    switch (f->fault) {
    case WEFT_FAULT_SILENT:
        if (f->count > 1) {
            snprintf(more, sizeof(more), " (nor do %d more)", f->count - 1);
        }
        snprintf(text, size, "%s does not answer%s: it has ended%s", who, more,
                 f->ended ? "" : ", is stopped, or cannot be reached");
        break;
    case WEFT_FAULT_BEHIND:
        describe_last_call(&accounts[f->process], last, sizeof(last));
        snprintf(text, size, "%s has not come to %s: %s", who, call, last);
        break;
    case WEFT_FAULT_COMPUTES:
        snprintf(text, size,
                 "%s has made %s, and its tasks have not ended, or the program holds a shard (%d of its %d "
                 "pending "
                 "transfers wait for that)",
                 who, call, (int)accounts[f->process].without_panels, (int)accounts[f->process].transfers);
        break;
    case WEFT_FAULT_LINK:
        snprintf(text, size, "messages of %s from %s to %s do not move", call, who,
                 weft_process_text(f->other, other, sizeof(other)));
        break;
    default:
        break;
    }
}

/* ---- the file that WEFT_REPORT names
 * -------------------------------------------------------------------- */

/* The mutex is held. */
static int pending_of_call(const weft_comm *comm, uint64_t call)
{
    int count = 0;
    for (const weft_comm_transfer *t = comm->oldest; t != NULL; t = t->newer) {
        count += t->call_number == call;
    }
    return count;
}

/* The mutex is held. */
static void write_calls(const weft_comm *comm, FILE *file)
{
    uint64_t last = weft_flight_last(comm->flight);
    uint64_t first = last < WEFT_FLIGHT_CALLS ? 1 : last - WEFT_FLIGHT_CALLS + 1;
    fprintf(
        file,
        "\nThe last calls: number, digest of all up to it, seconds ago, function with layouts and numbers, "
        "transfers that have not ended\n");
    for (uint64_t call = first; call <= last; call++) {
        char text[WEFT_ACCOUNT_TEXT];
        double age_s = 0;
        if (weft_flight_text(comm->flight, call, text, sizeof(text), &age_s)) {
            fprintf(file, "%8llu %016llx %8.3f  %s", (unsigned long long)call,
                    (unsigned long long)weft_flight_digest(comm->flight, call), age_s, text);
            int pending = pending_of_call(comm, call);
            fprintf(file, pending > 0 ? ", %d pending\n" : "\n", pending);
        }
    }
}

static void write_wait(const char *what, const weft_awaited *wait, FILE *file)
{
    if (wait->waits) {
        fprintf(file, ", waits for process %d to %s call %llu", wait->peer, what,
                (unsigned long long)wait->call);
    }
}

/* Lines on the inquiries of this process. */
static void write_answers(const weft_comm *comm, FILE *file)
{
    const weft_inquiry *q = &comm->inquiry;
    if (q->accounts == NULL) {
        return;
    }
    fprintf(file, "\nWhat the processes answered\n");
    for (int p = 0; p < comm->transport.place.num_processes; p++) {
        char who[64];
        fprintf(file, "  %s: ", weft_process_text(p, who, sizeof(who)));
        if (q->heard[p] == NULL) {
            fprintf(file, "nothing\n");
            continue;
        }
        const weft_account *account = q->heard[p];
        fprintf(file, "%llu calls, the last %.3f s before, digest %016llx",
                (unsigned long long)account->calls, account->since_last_call_s,
                (unsigned long long)account->digests[account->calls % WEFT_ACCOUNT_CALLS]);
        fprintf(file, ", %d transfers pending, %d of them without their panels", (int)account->transfers,
                (int)account->without_panels);
        write_wait("send for", &account->receive, file);
        write_wait("receive for", &account->send, file);
        fprintf(file, "\n");
    }
}

/* Into memory, because the mutex is held. */
static void write_report(weft_comm *comm, FILE *file)
{
    enum { MAX_MESSAGES = 5000 };
    char who[64], message[WEFT_BLAME_SIZE], when[64] = "";
    time_t now = time(NULL);
    struct tm day;
    if (localtime_r(&now, &day) != NULL) {
        strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", &day);
    }
    weft_status status = weft_broken_by(message, sizeof(message));
    fprintf(file, "weft: %s of %d, %s\n%s: %s\n",
            weft_process_text(comm->transport.place.process, who, sizeof(who)),
            comm->transport.place.num_processes, when, weft_status_string(status), message);
    starpu_pthread_mutex_lock(&comm->mutex);
    write_calls(comm, file);
    fprintf(file, "\nMessages that have not ended\n");
    print_oldest(comm, MAX_MESSAGES, file);
    starpu_pthread_mutex_unlock(&comm->mutex);
    write_answers(comm, file);
}

char *weft_report_path(int process)
{
    enum { MAX_DIGITS = 12 };
    const char *name = weft_variable_text(WEFT_VARIABLE_REPORT);
    size_t size = name == NULL ? 0 : strlen(name) + MAX_DIGITS + 1;
    char *path = name == NULL ? NULL : malloc(size);
    if (path != NULL) {
        snprintf(path, size, "%s.%d", name, process);
    }
    return path;
}

/* Replaces the file. Writing to a pipe without a reader fails instead of blocking this thread. */
static FILE *open_report(const char *path)
{
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_CLOEXEC, 0666);
    FILE *stream = file < 0 ? NULL : fdopen(file, "w");
    if (stream == NULL && file >= 0) {
        close(file);
    }
    return stream;
}

void weft_report_write(weft_comm *comm)
{
    if (comm->report_path == NULL) {
        return;
    }
    char *text = NULL;
    size_t size = 0;
    FILE *lines = open_memstream(&text, &size), *file = open_report(comm->report_path);
    bool written = file != NULL && lines != NULL;
    int error = file == NULL ? errno : ENOMEM;
    if (lines != NULL) {
        write_report(comm, lines);
        written = fclose(lines) == 0 && written;
    }
    if (file != NULL) {
        written = written && fwrite(text, 1, size, file) == size;
        error = written ? 0 : errno;
        written = fclose(file) == 0 && written;
    }
    free(text);
    if (!written && !weft_runtime.silent) {
        fprintf(stderr, "weft: the report %s (WEFT_REPORT) is not written: %s\n", comm->report_path,
                strerror(error != 0 ? error : errno));
    }
}
