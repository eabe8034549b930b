/* Names of tasks and panels in StarPU's traces; only in processes that trace, but for weft_tensor_label().
 *
 * A panel's handle carries the suffix for names of tasks that write it: the tensor, the panel's number if
 * there are several, the rank if the process hosts several: "h[3]@1" gives "matmul:h[3]@1", and with weft_here()
 * "matmul:h[3]@1(step.c:12)". Its coordinates are panel and rank. A tensor
 * without a name has an origin, the operation that made it, under which its transfers and copies are
 * shown. */
#include <string.h>

#include "runtime/trace.h"
#include "tensor/state.h"

const char *weft_tensor_label(const weft_tensor_impl *tensor)
{
    return tensor->name != NULL ? tensor->name : tensor->origin != NULL ? tensor->origin : "";
}

static const char *panel_label(const weft_local_shard *shard, int64_t panel, const char *tensor)
{
    char number[32] = "", rank[16] = "";
    if (shard->num_panels > 1) {
        snprintf(number, sizeof(number), "[%lld]", (long long)panel);
    }
    if (weft_runtime.local_ranks > 1) {
        snprintf(rank, sizeof(rank), "@%d", shard->rank);
    }
    return weft_trace_intern("%s%s%s", tensor, number, rank);
}

static void label_shard(const weft_local_shard *shard, const char *tensor, const char *origin)
{
    for (int64_t i = 0; i < shard->num_panels; i++) {
        starpu_data_handle_t handle = shard->panels[i].handle;
        const char *label = panel_label(shard, i, tensor);
        int coordinates[] = { (int)i, shard->rank };
        starpu_data_set_coordinates_array(handle, 2, coordinates);
        starpu_data_set_user_data(handle, (void *)label);
        starpu_data_set_name(handle, tensor[0] != '\0' ? label : panel_label(shard, i, origin));
    }
}

/* Shards in the memory of an older tensor keep that tensor's names; promised ones have no memory yet. */
static void label_panels(const weft_tensor_impl *tensor, const char *name)
{
    for (int i = 0; i < tensor->num_shards; i++) {
        const weft_local_shard *shard = &tensor->shards[i];
        if (shard->count > 0 && shard->buffer != NULL && shard->buffer->references == 1) {
            label_shard(shard, name, tensor->origin != NULL ? tensor->origin : "");
        }
    }
}

void weft_tensor_trace_new(weft_tensor_impl *tensor, const char *function)
{
    static const char prefix[] = "weft_";
    bool has_prefix = strncmp(function, prefix, sizeof(prefix) - 1) == 0;
    tensor->origin = weft_trace_intern("%s", has_prefix ? function + sizeof(prefix) - 1 : function);
    label_panels(tensor, "");
}

void weft_tensor_trace_moved(weft_tensor_impl *target, const weft_tensor_impl *source)
{
    target->origin = weft_trace_intern("%s", weft_tensor_label(source));
    label_panels(target, weft_tensor_label(target));
}

void weft_tensor_trace_renamed(const weft_tensor_impl *tensor)
{
    label_panels(tensor, tensor->name != NULL ? tensor->name : "");
}

const char *weft_task_trace_name(const char *operation, starpu_data_handle_t handle)
{
    const char *written = starpu_data_get_user_data(handle);
    char line[80] = "";
    if (weft_runtime.here != NULL) {
        const char *slash = strrchr(weft_runtime.here, '/');
        snprintf(line, sizeof(line), "(%.60s:%d)", slash == NULL ? weft_runtime.here : slash + 1, weft_runtime.here_line);
    }
    written = written == NULL ? "" : written;
    if (written[0] == '\0' && line[0] == '\0') {
        return operation;
    }
    bool named = written[0] != '\0' && written[0] != '[' && written[0] != '@';
    return weft_trace_intern("%s%s%s%s", operation, named ? ":" : "", written, line);
}
