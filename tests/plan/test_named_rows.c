/* Which rows a list names, against a search for each: random cuts and lists. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>

#include "cuts.h"
#include "plan/named_rows.h"

static void check(const weft_named_rows *named, weft_placement cut, int64_t size, const int64_t indices[])
{
    for (int64_t i = 0; i < named->count; i++) {
        int64_t row, together, part = weft_part_at(cut, size, named->parts, indices[i], &row, &together), at = named->number[i];
        assert_true(at >= named->begin[part] && at < named->begin[part + 1]);
        assert_int_equal(named->rows[at], row);
    }
    for (int64_t part = 0; part < named->parts; part++) {
        int64_t times = 0, first = -1;
        bool once = true;
        for (int64_t i = 0; i < named->count; i++) {
            bool own = named->number[i] >= named->begin[part] && named->number[i] < named->begin[part + 1];
            first = own && first < 0 ? i : first;
            once = once && (!own || (named->number[i] == named->begin[part] + times && i == first + times));
            times += own;
        }
        int64_t rows = named->begin[part + 1] - named->begin[part];
        assert_int_equal(named->first_place[part], once && times == rows && times > 0 ? first : -1);
        for (int64_t at = named->begin[part] + 1; at < named->begin[part + 1]; at++) {
            assert_true(named->rows[at - 1] < named->rows[at]);
        }
    }
}

static void random_lists(void **state)
{
    (void)state;
    prng random = prng_start(3);
    for (int n = cases_to_run(4000); n > 0; n--) {
        int64_t parts = 1 + prng_below(&random, 7), size = prng_below(&random, 50), count = size == 0 ? 0 : prng_below(&random, 40);
        int64_t indices[40], kind = prng_below(&random, 3), first = size == 0 ? 0 : prng_below(&random, size);
        weft_placement cut = prng_below(&random, 3) == 0 ? weft_shard_balanced(0)
                             : prng_below(&random, 2) == 0 ? sizes_of_rows(&random, 0, parts, size)
                                                           : cut_in_runs(&random, 0, parts);
        count = kind == 0 && count > size - first ? size - first : count;
        for (int64_t i = 0; i < count; i++) {
            indices[i] = kind == 0 ? first + i : prng_below(&random, kind == 1 ? size : 1 + size / 4);
        }
        weft_named_rows named;
        assert_true(weft_named_rows_find(&named, cut, size, parts, count, indices));
        check(&named, cut, size, indices);
        weft_named_rows_free(&named);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = { cmocka_unit_test(random_lists) };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
