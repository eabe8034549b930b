#include "runtime/codelets.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/cuda/fourier.h"
#include "codelets/kernel.h"
#include "runtime/cuda.h"

static uint32_t footprint(struct starpu_task *task)
{
    const weft_codelet *codelet = (const weft_codelet *)(const void *)task->cl;
    return codelet->info->footprint(task->cl_arg);
}

/* The symbol becomes a file name. */
static void write_symbol(weft_codelet *codelet)
{
    snprintf(codelet->symbol, sizeof(codelet->symbol), "weft_%s", codelet->info->name);
    for (char *c = codelet->symbol; *c != '\0'; c++) {
        if (!isalnum((unsigned char)*c)) {
            *c = '_';
        }
    }
}

static void fill_in(weft_codelet *codelet, const weft_kernel_info *info, weft_cpu_kernel cpu, int *nodes)
{
    codelet->info = info;
    codelet->cpu = cpu;
    write_symbol(codelet);
    codelet->model.type = STARPU_HISTORY_BASED;
    codelet->model.symbol = codelet->symbol;
    codelet->model.footprint = footprint;
    struct starpu_codelet *starpu = &codelet->starpu;
    starpu->cpu_funcs[0] = weft_task_run_cpu;
    starpu->cpu_funcs_name[0] = "weft_task_run_cpu";
    starpu->nbuffers = STARPU_VARIABLE_NBUFFERS;
    starpu->dyn_nodes = nodes; /* StarPU 1.4 reads one for each buffer of a task, used or not */
    starpu->name = info->name;
    starpu->color = info->color;
    starpu->model = &codelet->model;
}

weft_status weft_codelets_start(const char *function)
{
    weft_runtime_state *state = &weft_runtime;
    state->codelets = calloc(WEFT_KERNEL_COUNT, sizeof(*state->codelets));
    state->codelet_nodes = calloc(WEFT_KERNEL_MAX_PANELS, sizeof(int));
    if (state->codelets == NULL || state->codelet_nodes == NULL) {
        return weft_fail(WEFT_ERR_NOMEM, function, "no memory for the kernels");
    }
    for (weft_kernel_id i = WEFT_KERNEL_NONE + 1; i < WEFT_KERNEL_COUNT; i++) {
        fill_in(&state->codelets[i], &weft_kernel_infos[i], weft_cpu_kernels[i], state->codelet_nodes);
        state->codelets[i].cuda = weft_cuda_kernels[i];
        if (i == WEFT_KERNEL_fft) { /* has a library's order of arithmetic */
            const bool has_library = state->cuda_queues != NULL && state->cuda_queues[0].fast && weft_fourier_is_there();
            state->codelets[i].cuda = has_library ? weft_cuda_kernels[i] : NULL;
            state->codelets[i].on_devices = weft_fourier_serves;
        }
        weft_cuda_fill_in(&state->codelets[i]);
    }
    return WEFT_OK;
}

/* For a StarPU that the program keeps running: it must not use the model afterwards. */
static void let_go_of(weft_codelet *codelet)
{
    struct starpu_perfmodel *model = &codelet->model;
    if (!model->is_init) {
        return;
    }
    if (starpu_is_initialized() && !weft_runtime.owns_starpu) {
        if (model->benchmarking) {
            starpu_save_history_based_model(model);
        }
        starpu_perfmodel_deinit(model);
    }
}

static void forget_own(weft_own_codelets *own)
{
    if (own == NULL) {
        return;
    }
    for (size_t i = 0; i < own->count; i++) {
        weft_codelet *codelet = weft_codelet_of((weft_kernel_id)(WEFT_KERNEL_COUNT + i));
        let_go_of(codelet);
        free(codelet);
    }
    for (size_t b = 0; b < WEFT_ARRAY_SIZE(own->blocks); b++) {
        free(own->blocks[b]);
    }
    free(own);
}

void weft_codelets_stop(void)
{
    weft_runtime_state *state = &weft_runtime;
    for (weft_kernel_id i = 0; i < WEFT_KERNEL_COUNT && state->codelets != NULL; i++) {
        let_go_of(&state->codelets[i]);
    }
    forget_own(state->own_codelets);
    free(state->codelets);
    free(state->codelet_nodes);
}

/* ---- the program's own --------------------------------------------------------------------------------- */

typedef struct own_codelet {
    weft_codelet codelet;
    weft_kernel_info info;
    char name[];
} own_codelet;

/* For one more, which is not counted yet. NULL: no memory. */
static weft_codelet **next_slot(void)
{
    weft_runtime_state *state = &weft_runtime;
    if (state->own_codelets == NULL) {
        state->own_codelets = calloc(1, sizeof(*state->own_codelets));
    }
    weft_own_codelets *own = state->own_codelets;
    weft_own_place p = weft_own_place_of(own == NULL ? 0 : own->count);
    if (own == NULL || p.block >= WEFT_ARRAY_SIZE(own->blocks)) {
        return NULL;
    }
    if (own->blocks[p.block] == NULL) {
        own->blocks[p.block] = calloc(p.size, sizeof(weft_codelet *));
    }
    return own->blocks[p.block] == NULL ? NULL : &own->blocks[p.block][p.place];
}

static weft_kernel_id register_own(const weft_own_kernel *kernel, weft_cpu_kernel cpu)
{
    weft_runtime_state *state = &weft_runtime;
    size_t size = strlen(kernel->name) + 1;
    own_codelet *own = calloc(1, sizeof(*own) + size);
    weft_codelet **slot = own == NULL ? NULL : next_slot();
    if (slot == NULL) {
        free(own);
        return WEFT_KERNEL_NONE;
    }
    memcpy(own->name, kernel->name, size);
    own->info = *weft_kernel_info_of(WEFT_KERNEL_COUNT);
    own->info.name = own->name;
    own->info.footprint = kernel->footprint == NULL ? own->info.footprint : kernel->footprint;
    own->codelet.cuda = kernel->cuda;
    own->codelet.on_devices = kernel->on_devices;
    fill_in(&own->codelet, &own->info, cpu, state->codelet_nodes);
    weft_cuda_fill_in(&own->codelet);
    *slot = &own->codelet;
    return (weft_kernel_id)(WEFT_KERNEL_COUNT + state->own_codelets->count++);
}

weft_kernel_id weft_codelet_register(const char *name, weft_kernel views, weft_cuda_kernel cuda, bool draws)
{
    const weft_own_kernel kernel = { .name = name, .cuda = cuda == NULL ? NULL : weft_cuda_views };
    return register_own(&kernel, (weft_cpu_kernel){ .run = weft_cpu_views, .views = views, .cuda_views = cuda, .draws = draws });
}

weft_kernel_id weft_codelet_register_run(const weft_own_kernel *kernel)
{
    return register_own(kernel, (weft_cpu_kernel){ .run = kernel->run });
}

/* ---- running ------------------------------------------------------------------------------------------- */

void weft_task_run_cpu(void *buffers[], void *argument)
{
    weft_submitted_run *submitted = argument;
    weft_task_run *run = &submitted->run;
    weft_kernel_error error;
    error.status = WEFT_OK; /* the other members are set only with an error */
    run->error = &error;
    weft_task_run_place(submitted, buffers);
    run->cpu->run(run);
    if (error.status != WEFT_OK) {
        weft_task_run_report(run, submitted->operation);
    }
}
