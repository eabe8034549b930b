#include "autograd_support.h"

#include <stdio.h>

weft_mesh *line(void)
{
    int64_t ranks = weft_world_size();
    return weft_mesh_create(1, &ranks, NULL);
}

weft_tensor *leaf_of(weft_mesh *mesh, const weft_placement *placements, int64_t rows)
{
    weft_tensor *leaf = weft_ones(WEFT_F64, 2, (int64_t[]){ rows, 3 }, mesh, placements);
    assert_int_equal(weft_set_requires_grad(leaf, true), WEFT_OK);
    return leaf;
}

void assert_all(weft_tensor *tensor, double expected)
{
    double values[64];
    assert_non_null(tensor);
    assert_int_equal(weft_to_host(tensor, values, sizeof(values)), WEFT_OK);
    for (int64_t i = 0; i < weft_tensor_num_elements(tensor); i++) {
        assert_float_equal(values[i], expected, 1e-12);
    }
}
