/* Predictions without a change of the program: WEFT_PREDICT has weft_graph_call() predict each graph once, and write what
 * was found. */
#include "predict/predict.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/disk.h"
#include "runtime/variables.h"

enum { MAX_TEXT = 4096 };

/* WEFT_PREDICT: words separated by commas, "NAME=VALUE", "json" or "timed". */
typedef struct wish {
    char text[MAX_TEXT]; /* with zeros for the commas */
    weft_predict_options options;
    const char *to; /* a file that is appended to; NULL: standard output */
    int run;        /* after so many calls of a graph */
    bool json;
} wish;

/* ---- reading --------------------------------------------------------------------------------------------- */

static bool read_number(const char *value, int *number)
{
    char *end;
    errno = 0;
    long read = strtol(value, &end, 10);
    bool right = errno == 0 && end != value && *end == '\0' && read >= 0 && read <= 1 << 20;
    *number = right ? (int)read : *number;
    return right;
}

static bool read_word(wish *w, char *word)
{
    weft_predict_options *o = &w->options;
    const struct {
        const char *name;
        int *number;
        const char **text;
    } all[] = { { "processes", &o->processes, NULL }, { "hosts", &o->hosts, NULL }, { "workers", &o->workers, NULL },
                { "cores", &o->cores, NULL },         { "sharing", &o->sharing, NULL }, { "runs", &o->runs, NULL },   { "run", &w->run, NULL },
                { "machine", NULL, &o->machine },     { "timeline", NULL, &o->timeline }, { "to", NULL, &w->to } };
    char *value = strchr(word, '=');
    if (value == NULL) {
        w->json |= strcmp(word, "json") == 0;
        o->timed |= strcmp(word, "timed") == 0;
        return strcmp(word, "json") == 0 || strcmp(word, "timed") == 0 || strcmp(word, "on") == 0;
    }
    *value++ = '\0';
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(all); i++) {
        if (strcmp(all[i].name, word) == 0 && all[i].text != NULL) {
            *all[i].text = value;
            return *value != '\0';
        }
        if (strcmp(all[i].name, word) == 0) {
            return read_number(value, all[i].number);
        }
    }
    return false;
}

static bool read_wish(wish *w)
{
    const char *given = weft_variable_text(WEFT_VARIABLE_PREDICT);
    *w = (wish){ .run = 1 };
    bool right = strlen(given) < sizeof(w->text);
    if (right) {
        strcpy(w->text, given);
    }
    for (char *word = w->text, *next; right && word != NULL; word = next) {
        next = strchr(word, ',');
        if (next != NULL) {
            *next++ = '\0';
        }
        right = read_word(w, word);
    }
    return right && w->run > 0;
}

/* ---- writing --------------------------------------------------------------------------------------------- */

/* A number with six digits after the point, whatever the locale. */
static void write_number(FILE *file, const char *before, double value, const char *after)
{
    long long millionths = (long long)(value * 1e6 + (value < 0 ? -0.5 : 0.5));
    fprintf(file, "%s%s%lld.%06lld%s", before, millionths < 0 ? "-" : "", llabs(millionths) / 1000000,
            llabs(millionths) % 1000000, after);
}

/* A string of JSON. */
static void write_string(const char *text, FILE *file)
{
    fputc('"', file);
    for (const unsigned char *c = (const unsigned char *)text; *c != '\0'; c++) {
        fprintf(file, *c < ' ' ? "\\u%04x" : *c == '"' || *c == '\\' ? "\\%c" : "%c", *c);
    }
    fputc('"', file);
}

static void write_json(const char *graph, const weft_prediction *p, FILE *file)
{
    fprintf(file, "{\"graph\": ");
    write_string(graph, file);
    write_number(file, ", \"step_us\": ", p->step_us, "");
    write_number(file, ", \"computing\": ", p->computing, "");
    write_number(file, ", \"communicating\": ", p->communicating, "");
    write_number(file, ", \"exposed\": ", p->exposed, "");
    write_number(file, ", \"idle\": ", p->idle, "");
    write_number(file, ", \"busy\": ", p->busy, "");
    fprintf(file,
            ", \"tasks\": %llu, \"messages\": %llu, \"bytes\": %lld, \"peak_bytes\": %lld, \"processes\": %d, "
            "\"simulated\": %d, \"assumed\": %llu",
            (unsigned long long)p->tasks, (unsigned long long)p->messages, (long long)p->bytes, (long long)p->peak_bytes,
            p->processes, p->simulated, (unsigned long long)p->assumed);
    write_number(file, ", \"took_us\": ", p->took_us, "}\n");
}

static void write_lines(const char *graph, const weft_prediction *p, FILE *file)
{
    fprintf(file, "graph          %s\n", graph);
    fprintf(file, "step           %.3f ms\n", p->step_us * 1e-3);
    fprintf(file, "computing      %.1f %% of the time, workers busy %.1f %%\n", 100 * p->computing, 100 * p->busy);
    fprintf(file, "communicating  %.1f %%, exposed %.1f %%\n", 100 * p->communicating, 100 * p->exposed);
    fprintf(file, "idle           %.1f %%\n", 100 * p->idle);
    fprintf(file, "a process has  %llu tasks, %llu messages, receives %.2f MB, at most %.1f MB in tensors\n",
            (unsigned long long)p->tasks, (unsigned long long)p->messages, (double)p->bytes * 1e-6,
            (double)p->peak_bytes * 1e-6);
    fprintf(file, "processes      %d, %d of them simulated in %.2f s\n", p->processes, p->simulated, p->took_us * 1e-6);
    if (p->assumed > 0) {
        fprintf(file, "               the other side of %llu messages was assumed\n", (unsigned long long)p->assumed);
    }
    fprintf(file, "critical path\n%s", p->critical_path);
}

static weft_status write_found(const wish *w, const char *graph, const weft_prediction *found)
{
    static const char function[] = "weft_graph_call";
    FILE *file = w->to == NULL ? stdout : weft_disk_stream_to(w->to, true);
    if (file == NULL) {
        return weft_fail(WEFT_ERR_IO, function, "%s, %s: %s", weft_variable_name(WEFT_VARIABLE_PREDICT), w->to,
                         strerror(errno));
    }
    (w->json ? write_json : write_lines)(graph, found, file);
    bool written = fflush(file) == 0;
    written = (file == stdout || fclose(file) == 0) && written;
    return written ? WEFT_OK
                   : weft_fail(WEFT_ERR_IO, function, "%s: the prediction cannot be written",
                               weft_variable_name(WEFT_VARIABLE_PREDICT));
}

/* ---- all ------------------------------------------------------------------------------------------------- */

/* Where the world has several processes, its first one predicts; the others wait for its messages. */
static weft_status has_run(weft_graph_impl *graph)
{
    wish w;
    weft_prediction found;
    if (!read_wish(&w) || graph->info.runs != (uint64_t)w.run || weft_runtime.process != 0) {
        return WEFT_OK;
    }
    weft_status status = weft_graph_predict(graph->handle, &w.options, &found, sizeof(found));
    return status == WEFT_OK ? write_found(&w, graph->name, &found) : status;
}

weft_status weft_predict_check(const char *function)
{
    wish w;
    return weft_variable_text(WEFT_VARIABLE_PREDICT) == NULL || read_wish(&w)
               ? WEFT_OK
               : weft_fail(WEFT_ERR_INVALID, function,
                           "%s is \"%s\", expected on, json, timed, to=FILE, timeline=FILE, machine=FILE, run=N, runs=N, "
                           "processes=N, hosts=N, workers=N, cores=N, sharing=N, with commas between them",
                           weft_variable_name(WEFT_VARIABLE_PREDICT), weft_variable_text(WEFT_VARIABLE_PREDICT));
}

void weft_predict_start(void)
{
    weft_runtime.graphs->has_run = weft_variable_text(WEFT_VARIABLE_PREDICT) == NULL ? NULL : has_run;
}
