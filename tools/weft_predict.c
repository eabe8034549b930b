/* weft-predict: how long the steps of a program, or a graph that a program has saved, would take on another mesh, another number
 * of processes, or another machine. The program runs here, in a fake world (docs/graphs.md): it makes its graphs, and no data.
 * A saved graph's calls are made again in such a world. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/weft.h>

#include "graph/save/saved.h"

static const char usage[] =
    "weft-predict [OPTION...] [--] PROGRAM [ARGUMENT...]\n"
    "weft-predict GRAPH [OPTION...]\n"
    "\n"
    "GRAPH is a file of weft_graph_save(): its calls are made again on meshes of the sizes of --mesh (default: its own).\n"
    "Otherwise runs PROGRAM without data and predicts the first run of each of its graphs (weft_graph_call()): the time of a step,\n"
    "exposed communication, memory, the critical path. Behind -- is always a PROGRAM.\n"
    "\n"
    "  --mesh MESH       as dp=64,tp=8 or 64x8: so many ranks. An ARGUMENT {} is replaced by it\n"
    "  --ranks N         the number of ranks, instead of --mesh\n"
    "  --processes N     that the ranks are spread over (default: one for each rank)\n"
    "  --hosts N         that the processes are spread over (default: one for each process)\n"
    "  --workers N, --cores N    of each process (default: as in the machine's file, else 1)\n"
    "  --machine FILE    the machine's figures (docs/machine.md; weft-machine --figures writes those of this one).\n"
    "                    Without it links have the built-in figures, and kernels are timed here\n"
    "  --timed           kernels are timed here, also where FILE has rates\n"
    "  --runs N          steps that follow each other without a wait (default 1)\n"
    "  --run N           predicts the N-th run of each graph (default 1)\n"
    "  --timeline FILE   writes the timeline; script/profile --predicted FILE draws it\n"
    "  --json            one JSON object for each graph\n"
    "  --verbose         shows what PROGRAM prints\n"
    "\n"
    "Examples: weft-predict step.graph --mesh dp=64,tp=8 --machine cluster.txt\n"
    "          weft-predict --mesh dp=64,tp=8 --machine cluster.txt -- build/examples/transformer_lm --graph --mesh {}\n"
    "          --parallel tp --batch 256\n"
    "\n"
    "PROGRAM must choose its world by the environment (weft_config.world AUTO). It need not survive its first step: where it\n"
    "reads values, which a fake world does not have, it ends with an error, which is not shown. Exits with 1 if no graph was\n"
    "predicted.\n";

typedef struct arguments {
    const char *mesh, *ranks, *processes, *hosts, *workers, *cores, *machine, *runs, *run, *timeline;
    bool json, verbose, timed;
    const char *graph; /* NULL: a program */
    char **program;
} arguments;

static _Noreturn void refuse(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    fprintf(stderr, "weft-predict: ");
    vfprintf(stderr, format, list);
    fprintf(stderr, " (try --help)\n");
    va_end(list);
    exit(2);
}

static long number_of(const char *option, const char *text)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < 1 || number > 1 << 20) {
        refuse("%s: \"%s\" is no number from 1 to %d", option, text, 1 << 20);
    }
    return number;
}

/* The numbers in "dp=64,tp=8" or "64x8", and their names, in `space`. Their product. */
static long read_mesh(const char *mesh, weft_mesh_sizes *sizes, char *space)
{
    long ranks = 1;
    bool any = false;
    const char *c = mesh;
    *sizes = (weft_mesh_sizes){ .count = 0 };
    while (*c != '\0') {
        if (sizes->count == WEFT_MAX_DIMS) {
            refuse("--mesh: \"%s\" has more than %d dimensions", mesh, WEFT_MAX_DIMS);
        }
        int at = sizes->count++;
        const char *equals = c + strcspn(c, "=,");
        if (*equals == '=') {
            sizes->names[at] = memcpy(space, c, (size_t)(equals - c));
            space[equals - c] = '\0';
            space += equals - c + 1;
            c = equals + 1;
        }
        size_t digits = strspn(c, "0123456789");
        bool last = c[digits] == '\0', more = !last && strchr(",x", c[digits]) != NULL && c[digits + 1] != '\0';
        if (digits == 0 || digits > 7 || !(last || more)) {
            refuse("--mesh: \"%s\", expected as dp=64,tp=8 or 64x8", mesh);
        }
        sizes->sizes[at] = strtol(c, NULL, 10);
        ranks *= sizes->sizes[at];
        if ((sizes->names[at] == NULL) != (sizes->names[0] == NULL)) {
            refuse("--mesh: \"%s\" names some of its dimensions, and others not", mesh);
        }
        any = true;
        if (ranks < 1 || ranks > 1 << 20) {
            refuse("--mesh: \"%s\" has no or too many ranks", mesh);
        }
        c += digits + (c[digits] != '\0');
    }
    if (!any) {
        refuse("--mesh is empty");
    }
    return ranks;
}

/* Whether the argument that stands where options are expected is a saved graph: not after "--". */
static bool is_graph(char **argv, const arguments *a)
{
    bool behind = strcmp(argv[optind - 1], "--") == 0;
    return a->graph == NULL && !behind && argv[optind] != NULL && weft_saved_graph_is(argv[optind]);
}

static void check_arguments(arguments *a)
{
    if (a->graph != NULL && *a->program != NULL) {
        refuse("%s is a saved graph: it takes no argument %s", a->graph, *a->program);
    }
    if (a->graph == NULL && *a->program == NULL) {
        refuse("which program?");
    }
    if (a->graph != NULL && a->ranks != NULL) {
        refuse("--ranks: a saved graph needs --mesh");
    }
    if (a->graph == NULL && a->mesh == NULL && a->ranks == NULL && access(*a->program, F_OK) != 0) {
        refuse("%s: %s", *a->program, strerror(errno));
    }
    if (a->machine != NULL && access(a->machine, R_OK) != 0) {
        refuse("--machine %s: %s", a->machine, strerror(errno));
    }
    if (a->graph == NULL && (a->mesh == NULL) == (a->ranks == NULL)) {
        refuse("give one of --mesh and --ranks");
    }
}

static arguments read_arguments(int argc, char **argv)
{
    arguments a = { .mesh = NULL };
    enum { MESH = 256, RANKS, PROCESSES, HOSTS, WORKERS, CORES, MACHINE, RUNS, RUN, TIMELINE, JSON, VERBOSE, TIMED };
    static const struct option options[] = {
        { "mesh", required_argument, NULL, MESH },       { "ranks", required_argument, NULL, RANKS },
        { "processes", required_argument, NULL, PROCESSES }, { "hosts", required_argument, NULL, HOSTS },
        { "workers", required_argument, NULL, WORKERS }, { "cores", required_argument, NULL, CORES },
        { "machine", required_argument, NULL, MACHINE }, { "runs", required_argument, NULL, RUNS },
        { "run", required_argument, NULL, RUN },         { "timeline", required_argument, NULL, TIMELINE },
        { "json", no_argument, NULL, JSON },             { "verbose", no_argument, NULL, VERBOSE },
        { "timed", no_argument, NULL, TIMED },
        { "help", no_argument, NULL, 'h' },              { NULL, 0, NULL, 0 },
    };
    const char **texts[] = { &a.mesh, &a.ranks, &a.processes, &a.hosts, &a.workers, &a.cores, &a.machine, &a.runs, &a.run,
                             &a.timeline };
    for (int option; (option = getopt_long(argc, argv, "+h", options, NULL)) != -1 || is_graph(argv, &a);) {
        if (option == -1) {
            a.graph = argv[optind++];
            continue;
        }
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        }
        if (option == '?') {
            fputs("Try weft-predict --help.\n", stderr);
            exit(2);
        }
        a.json |= option == JSON;
        a.verbose |= option == VERBOSE;
        a.timed |= option == TIMED;
        if (option < JSON) {
            *texts[option - MESH] = optarg;
        }
    }
    a.program = argv + optind;
    check_arguments(&a);
    return a;
}

/* "runs=3,": a word of WEFT_PREDICT. */
static void add_word(char *text, size_t size, const char *name, const char *value)
{
    size_t length = strlen(text);
    if (value == NULL) {
        return;
    }
    if (strchr(value, ',') != NULL) {
        refuse("--%s: \"%s\" has a comma", name, value);
    }
    if (snprintf(text + length, size - length, "%s=%s,", name, value) >= (int)(size - length)) {
        refuse("--%s is too long", name);
    }
}

static void add_number(char *text, size_t size, const char *name, const char *value)
{
    char option[32];
    snprintf(option, sizeof(option), "--%s", name);
    if (value != NULL) {
        number_of(option, value);
    }
    add_word(text, size, name, value);
}

/* `results` NULL: standard output. */
static void set_environment(const arguments *a, long count, const char *results)
{
    char words[4000] = "", ranks[32];
    snprintf(ranks, sizeof(ranks), "%ld", count);
    if (a->processes != NULL && number_of("--processes", a->processes) > count) {
        refuse("--processes: %s for %ld ranks", a->processes, count);
    }
    add_word(words, sizeof(words), "to", results);
    add_word(words, sizeof(words), "timeline", a->timeline);
    add_number(words, sizeof(words), "hosts", a->hosts);
    add_number(words, sizeof(words), "workers", a->workers);
    add_number(words, sizeof(words), "cores", a->cores);
    add_number(words, sizeof(words), "runs", a->runs);
    add_number(words, sizeof(words), "run", a->run);
    strcat(words, a->json ? "json" : "on"); /* there is room: no file's name is that long */
    strcat(words, a->timed ? ",timed" : "");
    setenv("WEFT_WORLD", "fake", 1);
    setenv("WEFT_FAKE_SIZE", ranks, 1);
    setenv("WEFT_FAKE_PROCESSES", a->processes != NULL ? a->processes : ranks, 1);
    setenv("WEFT_PREDICT", words, 1);
    if (a->machine != NULL) {
        setenv("WEFT_MACHINE", a->machine, 1);
    }
    for (char **argument = a->program; a->graph == NULL && a->mesh != NULL && *argument != NULL; argument++) {
        *argument = strcmp(*argument, "{}") == 0 ? (char *)(size_t)a->mesh : *argument;
    }
}

/* A file without a name, whose text can be read again. */
static int make_file(char *path)
{
    int file = mkstemp(path);
    if (file < 0) {
        fprintf(stderr, "weft-predict: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    return file;
}

/* Copies a file; false: it is empty. */
static bool show(const char *path, FILE *to)
{
    char block[4096];
    FILE *file = fopen(path, "r");
    bool any = false;
    for (size_t count; file != NULL && (count = fread(block, 1, sizeof(block), file)) > 0; any = true) {
        fwrite(block, 1, count, to);
    }
    if (file != NULL) {
        fclose(file);
    }
    return any;
}

/* The program's status, as a shell's. */
static int run(const arguments *a, int output)
{
    pid_t child = fork();
    if (child == 0) {
        if (!a->verbose) {
            dup2(output, STDOUT_FILENO);
            dup2(output, STDERR_FILENO);
        }
        execvp(a->program[0], a->program);
        fprintf(stderr, "weft-predict: %s: %s\n", a->program[0], strerror(errno));
        _exit(127);
    }
    int status = 0;
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    return child < 0 ? 127 : WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* ---- saved graphs ---------------------------------------------------------------------------------------- */

/* WEFT_PREDICT predicts it after the run that is asked for. */
static weft_status call_saved(const arguments *a, weft_saved_graph *saved, const weft_mesh_sizes *sizes)
{
    weft_graph *graph = weft_saved_graph_make("weft-predict", saved, sizes);
    long runs = a->run == NULL ? 1 : number_of("--run", a->run);
    weft_status status = graph == NULL ? weft_last_status() : WEFT_OK;
    for (long i = 0; i < runs && status == WEFT_OK; i++) {
        status = weft_graph_call(graph, NULL, NULL, NULL);
    }
    return status;
}

static int predict_saved(const arguments *a)
{
    char *names = calloc(1, a->mesh == NULL ? 1 : strlen(a->mesh) + 1);
    weft_mesh_sizes sizes = { .count = 0 };
    if (names == NULL) {
        refuse("no memory");
    }
    if (a->mesh != NULL) {
        read_mesh(a->mesh, &sizes, names);
    }
    weft_saved_graph *saved = weft_saved_graph_read("weft-predict", a->graph);
    weft_status status = saved == NULL ? weft_last_status() : WEFT_OK;
    if (saved != NULL) {
        int64_t ranks = weft_saved_graph_ranks(saved, &sizes);
        if (ranks > 1 << 20) {
            refuse("the meshes of %s have more than %d ranks", a->graph, 1 << 20);
        }
        set_environment(a, (long)ranks, NULL);
        status = weft_init(NULL);
    }
    if (saved != NULL && status == WEFT_OK) {
        status = call_saved(a, saved, &sizes);
    }
    if (status != WEFT_OK) {
        fprintf(stderr, "%s\n", weft_last_error());
    }
    weft_finalize();
    weft_saved_graph_free(saved);
    free(names);
    return status == WEFT_OK && fflush(stdout) == 0 ? 0 : 1;
}

/* ---- programs -------------------------------------------------------------------------------------------- */

static int predict_program(const arguments *a)
{
    char results[] = "/tmp/weft-predict-XXXXXX", printed[] = "/tmp/weft-predict-XXXXXX";
    close(make_file(results));
    int output = make_file(printed);
    weft_mesh_sizes sizes;
    char *names = calloc(1, a->mesh == NULL ? 1 : strlen(a->mesh) + 1);
    if (names == NULL) {
        refuse("no memory");
    }
    set_environment(a, a->mesh != NULL ? read_mesh(a->mesh, &sizes, names) : number_of("--ranks", a->ranks), results);
    free(names);
    int status = run(a, output);
    close(output);
    bool any = show(results, stdout);
    if (!any) {
        if (!a->verbose) {
            show(printed, stderr);
        }
        fprintf(stderr, "weft-predict: %s has not run a graph (weft_graph_call()); it ended with %d\n", a->program[0], status);
    }
    unlink(results);
    unlink(printed);
    return any && fflush(stdout) == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    arguments a = read_arguments(argc, argv);
    return a.graph != NULL ? predict_saved(&a) : predict_program(&a);
}
