/* Results: the critical path in words, and the timeline that tools/profile draws. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/disk.h"
#include "predict/predict.h"

bool weft_predict_path(const weft_simulation *simulation, char *characters, size_t size)
{
    enum { MOST = 12 };
    weft_vec parts = { 0 };
    bool done = weft_simulation_path(simulation, &parts);
    weft_text text = weft_text_in(characters, size);
    const weft_path_part *all = parts.items;
    double rest = 0;
    for (size_t i = 0; i < parts.count && done; i++) {
        if (i >= MOST) {
            rest += all[i].us;
            continue;
        }
        const char *label = weft_simulated_label(simulation, all[i].label);
        weft_text_add(&text, "%10.1f us  %s%s%s x %llu\n", all[i].us,
                      all[i].kind == WEFT_PATH_MESSAGES     ? "messages"
                      : all[i].kind == WEFT_PATH_SUBMISSION ? "submission"
                                                            : "",
                      all[i].kind == WEFT_PATH_MESSAGES && *label != '\0' ? " of " : "",
                      all[i].kind == WEFT_PATH_SUBMISSION ? "" : label, (unsigned long long)all[i].count);
    }
    if (rest > 0) {
        weft_text_add(&text, "%10.1f us  others\n", rest);
    }
    weft_vec_free(&parts);
    return done;
}

/* ---- the timeline ---------------------------------------------------------------------------------------- */

/* Milliseconds with six digits after a point, whatever the locale. */
static void write_ms(FILE *file, double us)
{
    long long ns = us > 0 ? (long long)(us * 1e3 + 0.5) : 0;
    fprintf(file, "%lld.%06lld", ns / 1000000, ns % 1000000);
}

static void write_text(FILE *file, const char *text)
{
    fputc('"', file);
    for (const char *c = text; *c != '\0'; c++) {
        if (*c == '"' || *c == '\\') {
            fputc('\\', file);
        }
        fputc((unsigned char)*c < ' ' ? ' ' : *c, file);
    }
    fputc('"', file);
}

static void write_tasks(const weft_simulation *simulation, const weft_simulated_process *process, FILE *file)
{
    static const char *const families[] = { "product", "other", "move", "fill" };
    const uint32_t *numbers = process->records.items;
    bool first = true;
    for (size_t i = 0; i < process->records.count; i++) {
        const weft_simulated_record *record = weft_simulated_record_at(simulation, numbers[i]);
        if (record->kind != WEFT_SIMULATED_TASK) {
            continue;
        }
        fprintf(file, "%s\n   [", first ? "" : ",");
        write_text(file, weft_simulated_label(simulation, record->label));
        fprintf(file, ", \"%s\", %d, ", families[record->family], record->worker);
        write_ms(file, record->start_us);
        fprintf(file, ", ");
        write_ms(file, record->end_us);
        fprintf(file, "]");
        first = false;
    }
}

/* Each receive as [from, to, bytes, tensor, start, end]; `from` is the process that stands for the sender. */
static void write_messages(const weft_simulation *simulation, const weft_process_classes *classes, FILE *file)
{
    bool first = true;
    for (size_t i = 0; i < simulation->messages.count; i++) {
        const weft_simulated_message *message = weft_simulated_message_at(simulation, i);
        const weft_simulated_record *record = weft_simulated_record_at(simulation, message->record);
        if (record->kind != WEFT_SIMULATED_RECEIVE) {
            continue;
        }
        fprintf(file, "%s\n  [%d, %u, %lld, ", first ? "" : ",", classes->class_of[message->peer], record->process,
                (long long)message->bytes);
        write_text(file, weft_simulated_label(simulation, record->label));
        fprintf(file, ", ");
        write_ms(file, message->start_us);
        fprintf(file, ", ");
        write_ms(file, message->end_us);
        fprintf(file, "]");
        first = false;
    }
}

weft_status weft_predict_timeline(const weft_simulation *simulation, const weft_process_classes *classes, const char *path)
{
    FILE *file = weft_disk_stream_to(path, false);
    if (file == NULL) {
        return weft_fail(WEFT_ERR_IO, "weft_graph_predict", "options.timeline, %s: %s", path, strerror(errno));
    }
    fprintf(file, "{\"weft-timeline\": 1,\n \"processes\": [");
    for (size_t p = 0; p < simulation->processes.count; p++) {
        const weft_simulated_process *process = weft_simulated_process_at(simulation, p);
        fprintf(file, "%s\n  {\"process\": %d, \"workers\": %d, \"tasks\": [", p == 0 ? "" : ",", classes->first[p],
                process->workers);
        write_tasks(simulation, process, file);
        fprintf(file, "]}");
    }
    fprintf(file, "],\n \"messages\": [");
    write_messages(simulation, classes, file);
    bool written = fprintf(file, "]}\n") > 0 && ferror(file) == 0;
    written = fclose(file) == 0 && written;
    return written ? WEFT_OK : weft_fail(WEFT_ERR_IO, "weft_graph_predict", "options.timeline, %s: cannot be written", path);
}
