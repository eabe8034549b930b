/* A function of weft_local_map() that writes its context's value to all elements. */
#ifndef WEFT_TESTS_LOCAL_CONSTANT_H
#define WEFT_TESTS_LOCAL_CONSTANT_H

#include <weft/weft.h>

typedef struct constant {
    double value;
} constant;

static inline void write_constant(const weft_local_call *call)
{
    const constant *c = call->context;
    for (int64_t i = 0; i < call->outputs[0].count; i++) {
        ((double *)call->outputs[0].data)[i] = c->value;
    }
}

#endif
