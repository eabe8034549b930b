#include "layouts.h"

#include <stdlib.h>

/* Their layouts, as the graph's choice says. */
static weft_status place(const weft_graph *step, weft_module *model, int count, const char *names[],
                         weft_tensor *const parameters[])
{
    weft_status status = WEFT_OK;
    for (int i = 0; i < count && status == WEFT_OK; i++) {
        weft_placement placements[WEFT_MAX_DIMS];
        status = weft_graph_get_placements(step, parameters[i], placements);
        if (status == WEFT_OK) {
            status = weft_module_place(model, names[i], weft_tensor_mesh(parameters[i]), placements);
        }
    }
    return status;
}

weft_status layouts_choose(weft_graph *step, weft_module *model, int count, weft_tensor *const tensors[], FILE *table)
{
    const weft_graph_shard_options options = { .num_movable = count, .movable = tensors, .table = table };
    const char **names = malloc((size_t)count * sizeof(*names));
    weft_tensor **parameters = malloc((size_t)count * sizeof(*parameters));
    weft_status status = names == NULL || parameters == NULL ? WEFT_ERR_NOMEM : weft_graph_shard(step, &options);
    if (status == WEFT_OK) {
        int num_parameters = weft_module_parameters(model, count, names, parameters);
        status = place(step, model, num_parameters, names, parameters);
    }
    free(names);
    free(parameters);
    return status;
}
