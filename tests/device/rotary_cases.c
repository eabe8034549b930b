#include "rotary_cases.h"

#include "codelets/rotary.h"
#include "fast_cases.h"

#define CASES share_of(24)

/* The distance of numbers of a type's arithmetic, relative to them. */
static double unit_of(weft_dtype type)
{
    return type == WEFT_F64 ? 0x1p-52 : 0x1p-23;
}

static void begin_rotary(view_case *c, weft_dtype type, bool wide, int64_t half, bool near)
{
    begin_case(c, WEFT_KERNEL_rotary);
    const bool whole = near && below(2) == 0;
    memory.calm = memory.calm || near;
    part of = any_part(2, wide ? 2 : 4, 4);
    int dim = of.ndim - 2;
    of.extent[dim] = 1 + below(wide ? 10 : 30); /* four dimensions of f64 fit into the memory */
    of.offset[dim] = below(wide ? 10 : 40);
    of.shape[dim] = of.offset[dim] + of.extent[dim];
    of = part_with(of, dim + 1, 2 * half);
    c->scalars[WEFT_ROTARY_THETA] = below(2) == 0 ? 10000 : 2;
    c->scalars[WEFT_ROTARY_FIRST] = (double)below(1000);
    c->scalars[WEFT_ROTARY_SIGN] = below(2) == 0 ? 1 : -1;
    add_output(c, type, &of, whole);
    add_input(c, type, &of, whole);
}

void test_rotary(void **state)
{
    (void)state;
    for (int i = 0; i < 4 * CASES; i++) {
        view_case c;
        const bool wide = below(8) == 0; /* a block's table has 64 pairs */
        begin_rotary(&c, (weft_dtype)below(WEFT_F16 + 1), wide, wide ? 60 + below(80) : below(9), false);
        run_case(&c);
    }
}

void test_fast_rotary(void **state)
{
    (void)state;
    static const double firsts[] = { 0, 1000, 100000, 5000000 };
    resize_memory(MOST_MEMORY_BYTES);
    for (int i = 0; i < 32 * CASES; i++) {
        view_case c;
        const weft_dtype type = (weft_dtype)(i % (WEFT_F16 + 1));
        const int64_t few = below(3) == 0 ? below(9) : 8 * (1 + below(2)), many = below(2) == 0 ? 60 + below(80) : 64;
        const bool wide = below(8) == 0;
        begin_rotary(&c, type, wide, wide ? many : few, true);
        c.scalars[WEFT_ROTARY_FIRST] = firsts[below(4)] + (double)below(1000);
        /* Numbers are up to 4. Angles have the errors of large positions in double precision. */
        run_fast(&c, 2 * unit_of(type), 16 * unit_of(type) + 16 * (c.scalars[WEFT_ROTARY_FIRST] + 64) * 0x1p-52);
    }
    resize_memory(MEMORY_BYTES);
}
