#include "ops/ops.h"

#define FAMILY(name) weft_##name##_operations,
const weft_operation *const *const weft_operation_families[] = {
#include "ops/families.inc"
    NULL,
};
#undef FAMILY
