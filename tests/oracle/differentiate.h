/* Gradients of the calls of a case. */
#ifndef WEFT_TESTS_ORACLE_DIFFERENTIATE_H
#define WEFT_TESTS_ORACLE_DIFFERENTIATE_H

#include "dispatch/dispatch.h"
#include "oracle.h"

bool oracle_record(const oracle_operation *operation, const oracle_case *c, weft_tensor *const in[],
                   weft_tensor *out[]);
weft_status oracle_gradients(int num_outputs, weft_tensor *const outputs[], weft_tensor *const seeds[],
                             int num_inputs, weft_tensor *const inputs[], bool create_graph,
                             weft_tensor *gradients[]);

#endif
