/* Donated inputs: the run takes their memory, and their handles end. */
#include "graph/run/graph.h"

#include <stdlib.h>
#include <string.h>

#include "tensor/promised.h"
#include "tensor/state.h"

static bool is_acquired(const weft_tensor_impl *tensor)
{
    bool acquired = false;
    for (int i = 0; i < tensor->num_shards; i++) {
        acquired |= tensor->shards[i].hold != NULL;
    }
    return acquired;
}

bool weft_graph_check_donated(const weft_graph_impl *graph, weft_tensor *const inputs[])
{
    for (int i = 0; i < graph->num_inputs && graph->donated != NULL; i++) {
        if (!graph->donated[i]) {
            continue;
        }
        const weft_tensor_impl *tensor = weft_tensor_get(inputs[i]);
        const char *wrong = tensor->ghosted != NULL ? "lies in ghosted arrays (weft_from_ghosted())"
                            : tensor->borrowed     ? "is on memory of the program's (weft_from_local())"
                            : tensor->tape != NULL ? "requires a gradient"
                            : is_acquired(tensor)  ? "has been acquired (weft_local_acquire())"
                                                   : NULL;
        for (int k = 0; k < graph->num_inputs && wrong == NULL; k++) {
            wrong = k != i && inputs[k] == inputs[i] ? "is another input too" : NULL;
        }
        if (wrong != NULL) {
            weft_fail(WEFT_ERR_STATE, "weft_graph_call", "inputs[%d] of graph %s is donated, and %s", i, graph->name, wrong);
            return false;
        }
    }
    return true;
}

bool weft_run_donate(weft_graph_run *run, weft_tensor *const inputs[], weft_tensor *const outputs[])
{
    const weft_graph_impl *graph = run->graph;
    for (int i = 0; i < graph->num_inputs && graph->donated != NULL; i++) {
        bool given = graph->donated[i];
        for (int k = 0; k < graph->num_outputs && given; k++) {
            given = outputs[k] != inputs[i]; /* it goes back to the program */
        }
        weft_tensor_impl **place = given ? weft_vec_push(&run->donated, sizeof(*place)) : NULL;
        if (given && place == NULL) {
            return false;
        }
        if (given) {
            *place = weft_tensor_get(inputs[i]);
        }
    }
    return true;
}

/* A tensor of the same memory that the run alone knows, with a handle. NULL with the error kept. */
static weft_tensor_impl *take_memory_of(const weft_tensor_impl *tensor)
{
    static const char function[] = "weft_graph_call";
    if (!weft_scope_begin_unrecorded()) {
        return NULL;
    }
    weft_tensor_impl *taken = weft_tensor_save_memory(function, tensor);
    if (taken != NULL && !weft_tensor_register(function, taken)) {
        weft_tensor_unreference(taken);
        taken = NULL;
    }
    weft_scope_end_keeping(0, NULL, NULL, NULL);
    return taken;
}

/* The run's values are in the other tensor from now on. */
static void bind_instead(const weft_graph_run *run, weft_tensor_impl *tensor, weft_tensor_impl *other)
{
    for (int i = 0; i < (int)run->bound.count; i++) {
        weft_tensor_impl **bound = weft_run_bound(run, i);
        if (*bound == tensor) {
            *bound = other;
            other->references++;
            weft_tensor_unreference(tensor);
        }
    }
}

bool weft_run_take_donated(weft_graph_run *run)
{
    bool done = true;
    for (size_t i = 0; i < run->donated.count && done; i++) {
        weft_tensor_impl *tensor = ((weft_tensor_impl **)run->donated.items)[i], *taken = take_memory_of(tensor);
        done = taken != NULL;
        if (done) {
            tensor->references++; /* until it has been given up */
            bind_instead(run, tensor, taken);
            weft_tensor_unreference(taken);
            weft_tensor_give_up(tensor);
            weft_tensor_unreference(tensor);
        }
    }
    run->donated.count = 0;
    return done;
}
