/* Tasks, the cheap way: starpu_task_create() and starpu_task_submit(), no variadic insertion. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "codelets/move.h"
#include "sched/sched.h"
#include "tensor/state.h"

void *weft_task_begin(weft_task *task, struct starpu_codelet *codelet, const char *name, size_t args_size,
                      weft_dtype dtype)
{
    weft_task_args *args = malloc(args_size);
    if (args == NULL) {
        weft_fail(WEFT_ERR_NOMEM, name, "no memory for a task");
        return NULL;
    }
    memset(args, 0, args_size);
    args->dtype = dtype;
    task->codelet = codelet;
    task->name = name;
    task->args = args;
    task->args_size = args_size;
    task->position = 0;
    task->num_buffers = 0;
    task->handles = task->few_handles;
    task->modes = task->few_modes;
    task->places = NULL;
    task->num_places = 0;
    return args;
}

/* The number of a handle that the task has, or else of the next one, which then gets its place in the table.
 */
static int find_buffer(weft_task *task, starpu_data_handle_t handle)
{
    int found = 0;
    if (task->num_places == 0) {
        while (found < task->num_buffers && task->handles[found] != handle) {
            found++;
        }
        return found;
    }
    size_t mask = (size_t)task->num_places - 1, place = weft_hash_u64((uint64_t)(uintptr_t)handle) & mask;
    while (task->places[place] != 0 && task->handles[task->places[place] - 1] != handle) {
        place = (place + 1) & mask;
    }
    if (task->places[place] == 0) {
        task->places[place] = task->num_buffers + 1;
    }
    return task->places[place] - 1;
}

/* StarPU takes each handle once per task: two operands in one panel become one buffer with both accesses. */
static int buffer_of(weft_task *task, starpu_data_handle_t handle, enum starpu_data_access_mode mode)
{
    int buffer = find_buffer(task, handle);
    if (buffer < task->num_buffers) {
        task->modes[buffer] |= mode;
        return buffer;
    }
    task->handles[buffer] = handle;
    task->modes[buffer] = mode;
    return task->num_buffers++;
}

bool weft_task_reserve(weft_task *task, int num_operands)
{
    if (num_operands <= WEFT_MAX_OPERANDS) {
        return true;
    }
    int num_places = 128;
    while (num_places / 2 < num_operands && num_places <= INT_MAX / 2) {
        num_places *= 2;
    }
    starpu_data_handle_t *handles = malloc((size_t)num_operands * sizeof(*handles));
    enum starpu_data_access_mode *modes = malloc((size_t)num_operands * sizeof(*modes));
    int *places = calloc((size_t)num_places, sizeof(*places));
    if (handles == NULL || modes == NULL || places == NULL) {
        free(handles);
        free(modes);
        free(places);
        weft_fail(WEFT_ERR_NOMEM, task->name, "no memory for a task");
        return false;
    }
    weft_task few = *task;
    task->handles = handles;
    task->modes = modes;
    task->places = places;
    task->num_places = num_places;
    task->num_buffers = 0;
    for (int i = 0; i < few.num_buffers; i++) {
        buffer_of(task, few.handles[i], few.modes[i]);
    }
    return true;
}

weft_task_operand weft_task_operand_of(weft_task *task, const weft_panel *panel, int64_t offset,
                                       enum starpu_data_access_mode mode)
{
    return (weft_task_operand){
        .offset = panel->offset + offset,
        .buffer = buffer_of(task, panel->handle, mode),
    };
}

void weft_task_add(weft_task *task, const weft_panel *panel, int64_t offset,
                   enum starpu_data_access_mode mode)
{
    weft_task_args *args = task->args;
    args->operands[args->num_operands++] = weft_task_operand_of(task, panel, offset, mode);
}

static void free_buffers(weft_task *task)
{
    free(task->places);
    task->places = NULL;
    if (task->handles != task->few_handles) {
        free(task->handles);
        free(task->modes);
    }
}

void weft_task_drop(weft_task *task)
{
    free_buffers(task);
    free(task->args);
    task->args = NULL;
}

bool weft_task_submit(weft_task *task)
{
    struct starpu_task *starpu = starpu_task_create();
    starpu->cl = task->codelet;
    starpu->name = weft_runtime.trace == NULL ? task->name : weft_task_trace_name(task);
    starpu->cl_arg = task->args;
    starpu->cl_arg_size = task->args_size;
    starpu->cl_arg_free = 1;
    starpu->nbuffers = task->num_buffers;
    weft_held_follow_task(task->num_buffers, task->handles, task->modes);
    if (task->num_buffers > STARPU_NMAXBUFS) {
        starpu->dyn_handles = task->handles; /* StarPU frees them with the task */
        starpu->dyn_modes = task->modes;
        free(task->places);
    } else {
        memcpy(starpu->handles, task->handles, (size_t)task->num_buffers * sizeof(task->handles[0]));
        memcpy(starpu->modes, task->modes, (size_t)task->num_buffers * sizeof(task->modes[0]));
        free_buffers(task);
    }
    starpu->priority = weft_sched_priority(weft_runtime.operations, task->position);
    int failed = starpu_task_submit(starpu);
    if (failed != 0) {
        starpu->destroy = 0;
        starpu_task_destroy(starpu); /* frees the arguments too */
        weft_fail_alone(WEFT_ERR_UNSUPPORTED, task->name, "StarPU takes no such task: %s", strerror(-failed));
        return false;
    }
    weft_runtime.counters.tasks++;
    return true;
}

bool weft_task_copy_panel(const weft_panel *target, const weft_panel *source, int64_t bytes)
{
    weft_task task;
    weft_copy_args *args = weft_task_begin(&task, &weft_codelet_copy, "copy", sizeof(*args), WEFT_U8);
    if (args == NULL) {
        return false;
    }
    args->element_size = 1;
    args->boxes[0] =
        (weft_strided_box){ .ndim = 1, .extent = { bytes }, .source_stride = { 1 }, .target_stride = { 1 } };
    weft_task_add(&task, target, 0, STARPU_W);
    weft_task_add(&task, source, 0, STARPU_R);
    return weft_task_submit(&task);
}
