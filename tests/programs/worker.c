#include "worker.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gradients.h"
#include "graphs.h"
#include "make.h"
#include "ops/ops.h"

/* ---- the page ------------------------------------------------------------------------------------------ */

static worker_page own_page;
static worker_page *shown = &own_page;

static void open_page(const char *path)
{
    int file = path == NULL ? -1 : open(path, O_RDWR);
    if (file >= 0) {
        void *memory = mmap(NULL, sizeof(worker_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        shown = memory == MAP_FAILED ? &own_page : memory;
        close(file);
    }
}

/* Records the operations that are reached: wraps weft_dispatch(), weft_dispatch_all() for several outputs,
 * and weft_dispatch_itself() and weft_dispatch_itself_all() for parts of composites (--wrap). */
bool __real_weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[]);
bool __wrap_weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[]);
weft_tensor *__real_weft_dispatch_itself(const weft_call *call);
weft_tensor *__wrap_weft_dispatch_itself(const weft_call *call);
bool __real_weft_dispatch_all(const weft_call *call, weft_tensor *outputs[]);
bool __wrap_weft_dispatch_all(const weft_call *call, weft_tensor *outputs[]);
weft_tensor *__real_weft_dispatch(const weft_call *call);
weft_tensor *__wrap_weft_dispatch(const weft_call *call);

static void note(const weft_call *call)
{
    int i = 0;
    for (size_t f = 0; weft_operation_families[f] != NULL; f++) {
        for (size_t k = 0; weft_operation_families[f][k] != NULL; k++, i++) {
            if (weft_operation_families[f][k] == call->operation && i < MAX_REGISTERED) {
                shown->dispatched[i]++;
            }
        }
    }
}

weft_tensor *__wrap_weft_dispatch(const weft_call *call)
{
    note(call);
    return __real_weft_dispatch(call);
}

bool __wrap_weft_dispatch_itself_all(const weft_call *call, weft_tensor *outputs[])
{
    note(call);
    return __real_weft_dispatch_itself_all(call, outputs);
}

weft_tensor *__wrap_weft_dispatch_itself(const weft_call *call)
{
    note(call);
    return __real_weft_dispatch_itself(call);
}

bool __wrap_weft_dispatch_all(const weft_call *call, weft_tensor *outputs[])
{
    note(call);
    return __real_weft_dispatch_all(call, outputs);
}

/* ---- worlds -------------------------------------------------------------------------------------------- */

static void set(const char *variable, bool given, const char *value)
{
    if (given) {
        setenv(variable, value, 1);
    } else {
        unsetenv(variable);
    }
}

static bool start_world(const program *p)
{
    char rows[16];
    snprintf(rows, sizeof(rows), "%d", p->panel_rows);
    set("WEFT_PANEL_ROWS", p->panel_rows > 0, rows);
    set("WEFT_PLAN", p->plan > 0, program_plans[p->plan]);
    set("WEFT_TASK_CACHE", p->cache > 0, program_caches[p->cache]);
    set("WEFT_CHECK", p->compares, "1");
    set("WEFT_PACK_BYTES", p->packs, "4096");
    set("WEFT_SILENT", true, "1");
    set("WEFT_AUTOGRAPH", p->repeated, "1");
    weft_config config = WEFT_CONFIG_DEFAULT;
    config.ranks = p->ranks;
    config.workers = p->processes == 1 ? 2 : 1;
    bool started = weft_init(&config) == WEFT_OK && weft_num_processes() == p->processes;
    if (!started) {
        fprintf(stderr, "FAILED the world does not start, or has %d processes: %s\n", weft_num_processes(),
                weft_last_error());
    }
    for (int i = 1; i < MAX_STATES && started; i++) {
        weft_random_state_create(random_state_name(i), 0);
    }
    return started;
}

static void count_calls(const program *p)
{
    for (int i = 0; i < p->num_steps; i++) {
        int row = operation_index(p->steps[i].operation);
        shown->calls[row < MAX_OPERATIONS ? row : 0]++;
    }
}

/* ---- programs ------------------------------------------------------------------------------------------ */

static int run_file(const char *path)
{
    static program p;
    tally counts = { 0 };
    char why[100] = "cannot be opened";
    FILE *file = fopen(path, "r");
    if (file == NULL || !program_read(&p, file, why, sizeof(why))) {
        fprintf(stderr, "FAILED %s: %s\n", path, why);
        return RUN_FAILED;
    }
    fclose(file);
    if (!start_world(&p)) {
        return RUN_FAILED;
    }
    (p.repeated ? run_repeated : p.graphs ? run_in_graphs : p.gradients ? run_gradients : run_program)(&p, &counts);
    return weft_finalize() == WEFT_OK ? 0 : RUN_FAILED;
}

static int run_seeds(const order *o)
{
    static program p;
    tally counts = { 0 };
    for (uint64_t i = 0; i < o->count; i++) {
        uint64_t seed = o->from + i;
        if (i > 0 && seed % PROGRAMS_PER_WORLD == 0 && weft_finalize() != WEFT_OK) {
            fprintf(stderr, "FAILED weft_finalize(): %s\n", weft_last_error());
            return RUN_FAILED;
        }
        choose_world(&p, seed, o->processes);
        p.repeated = o->repeated;
        p.cache = o->checks ? NUM_CACHES - 1 : p.cache;
        if ((i == 0 || seed % PROGRAMS_PER_WORLD == 0) && !start_world(&p)) {
            return RUN_FAILED;
        }
        if (i == 0 && weft_process_index() > 0) {
            shown = &own_page;
        }
        shown->seed = seed;
        p.gradients = o->gradients;
        p.graphs = o->graphs;
        generate(&p, o->only);
        (p.repeated ? run_repeated : p.graphs ? run_in_graphs : p.gradients ? run_gradients : run_program)(&p, &counts);
        count_calls(&p);
        shown->tally = counts;
        shown->programs++;
    }
    return weft_finalize() == WEFT_OK ? 0 : RUN_FAILED;
}

int worker(const order *o)
{
    open_page(o->page);
    return o->file != NULL ? run_file(o->file) : run_seeds(o);
}
