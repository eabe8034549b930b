/* The one place that asks weft for gradients. */
#include <stdlib.h>
#include <string.h>

#include "differentiate.h"
#include "ops/gradient.h"

static struct {
    weft_recorder recorder;
    weft_call *call;
    weft_tensor *outputs[ORACLE_OUTPUTS];
    int num_calls, num_outputs;
} tape;

static void begin(weft_recorder *self, const weft_call *call, int num_outputs)
{
    (void)self;
    (void)num_outputs;
    free(tape.call);
    size_t bytes;
    tape.call = weft_call_copy(call, &bytes);
    tape.num_calls++;
}

static void end(weft_recorder *self, const weft_call *call, int num_outputs, weft_tensor *const outputs[],
                weft_status status)
{
    (void)self;
    (void)call;
    tape.num_outputs = status == WEFT_OK ? num_outputs : 0;
    memcpy(tape.outputs, outputs, (size_t)tape.num_outputs * sizeof(outputs[0]));
}

bool oracle_record(const oracle_operation *operation, const oracle_case *c, weft_tensor *const in[],
                   weft_tensor *out[])
{
    tape.num_calls = 0;
    tape.recorder = (weft_recorder){ .begin = begin, .end = end };
    weft_recorder_install(&tape.recorder);
    oracle_call(operation, c, in, out);
    weft_recorder_remove(&tape.recorder);
    for (int i = 1; i < (tape.num_calls == 1 ? weft_call_num_tensors(tape.call) : 0); i++) {
        if (weft_call_tensor(tape.call, i) == weft_call_tensor(tape.call, i - 1)) {
            return false;
        }
    }
    return tape.num_calls == 1 && c->num_directions == 0 && strstr(c->operation, "inplace") == NULL;
}

weft_status oracle_gradients(int num_outputs, weft_tensor *const outputs[], weft_tensor *const seeds[],
                             int num_inputs, weft_tensor *const inputs[], bool create_graph,
                             weft_tensor *gradients[])
{
    (void)create_graph;
    bool wanted[16] = { false };
    weft_tensor *found[16] = { NULL }, *given[16] = { NULL };
    int n = weft_call_num_tensors(tape.call);
    for (int i = 0; i < n; i++) {
        wanted[i] = weft_dtype_is_floating(weft_tensor_dtype(weft_call_tensor(tape.call, i)));
    }
    for (int o = 0; o < tape.num_outputs; o++) {
        for (int k = 0; k < num_outputs; k++) {
            given[o] = outputs[k] == tape.outputs[o] ? seeds[k] : given[o];
        }
    }
    weft_status status = weft_call_gradients(&(weft_gradient){ .call = tape.call,
                                                               .outputs = tape.outputs,
                                                               .output_gradients = given,
                                                               .wanted = wanted,
                                                               .gradients = found });
    for (int i = 0; i < num_inputs; i++) {
        gradients[i] = NULL;
        for (int k = 0; k < n && status == WEFT_OK; k++) {
            gradients[i] = weft_call_tensor(tape.call, k) == inputs[i] ? found[k] : gradients[i];
        }
    }
    return status;
}
