/* Plans of Fourier transforms are made once, stay while they are used, make room for others, and are destroyed with the runtime. */
#include "support.h"

#include <stdlib.h>

#include "codelets/cpu/fft_cache.h"
#include "codelets/cpu/fft_plan.h"
#include "codelets/fft.h"

static int made, destroyed;

typedef struct numbered_plan {
    weft_fft_kept kept;
    int number;
    int64_t mib;
} numbered_plan;

static bool is_same(const weft_fft_kept *kept, const void *wanted)
{
    return ((const numbered_plan *)kept)->number == ((const numbered_plan *)wanted)->number;
}

static weft_fft_kept *make(const void *wanted)
{
    numbered_plan *plan = malloc(sizeof(*plan));
    *plan = *(const numbered_plan *)wanted;
    plan->kept.bytes = plan->mib << 20;
    made++;
    return plan->number < 0 ? (free(plan), NULL) : &plan->kept;
}

static void destroy(weft_fft_kept *kept)
{
    free(kept);
    destroyed++;
}

static const weft_fft_maker maker = { is_same, make, destroy };

static weft_fft_kept *obtain(int number, int64_t mib)
{
    return weft_fft_obtain(&maker, &(numbered_plan){ .number = number, .mib = mib });
}

static void expect(int all_made, int all_destroyed)
{
    assert_int_equal(made, all_made);
    assert_int_equal(destroyed, all_destroyed);
}

static void test_bytes_are_bounded(void **state)
{
    (void)state;
    weft_fft_kept *first = obtain(1, 100), *second = obtain(2, 100);
    assert_ptr_equal(obtain(1, 100), first);
    expect(2, 0);
    weft_fft_release(first);
    weft_fft_kept *third = obtain(3, 100); /* all are in use */
    expect(3, 0);
    weft_fft_release(second);
    weft_fft_kept *fourth = obtain(4, 1);
    expect(4, 1);
    weft_fft_release(first);
    weft_fft_release(third);
    weft_fft_release(obtain(1, 100)); /* the newest of those that are free */
    weft_fft_kept *large = obtain(5, 1000);
    expect(5, 3);
    weft_fft_release(large);
    weft_fft_release(fourth);
    weft_fft_release(obtain(5, 1000)); /* stays, beside none that is older */
    expect(5, 3);
    weft_fft_release(obtain(4, 1));
    expect(5, 3);
    assert_null(obtain(-1, 0));
    expect(6, 3);
    weft_fft_forget_plans();
    expect(6, 5);
}

/* Plans have plans: one of Bluestein's algorithm, and one of a long line. */
static void test_the_runtime_takes_plans_with_it(void **state)
{
    (void)state;
    WORLD(1, .world = WEFT_WORLD_SELF);
    made = destroyed = 0;
    weft_fft_release(obtain(6, 1));
    weft_fft_plan_release(weft_fft_plan_obtain(10007));
    weft_fft_plan_release(weft_fft_plan_obtain(4096));
    weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 1 }, NULL);
    weft_tensor *a = weft_ones(WEFT_F64, 1, (const int64_t[]){ 34 }, mesh, NULL);
    assert_non_null(weft_rfft(a, 0, 0, WEFT_FFT_BACKWARD));
    expect(1, 0);
    assert_int_equal(weft_finalize(), WEFT_OK);
    expect(1, 1);
    weft_fft_plan_release(weft_fft_plan_obtain(4096));
    weft_fft_forget_plans();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_bounded),
        cmocka_unit_test(test_the_runtime_takes_plans_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
