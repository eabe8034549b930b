#include "random_support.h"

weft_mesh *one_rank(void)
{
    int64_t one = 1;
    return weft_mesh_create(1, &one, NULL);
}

weft_random_state default_state(void)
{
    weft_random_state state;
    assert_int_equal(weft_random_state_get(NULL, &state), WEFT_OK);
    return state;
}

void start_seeded(const char *variable, const char *value)
{
    start_seeded_world(variable, value, UINT64_C(0xfedcba9876543210));
}
