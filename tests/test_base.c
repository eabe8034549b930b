/* src/base: status and type names, checked arithmetic, growable arrays, sets of pointers, handles, hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/handles.h"

/* ---- names --------------------------------------------------------------------------------------------- */

static void every_status_has_a_text_of_its_own(void **state)
{
    (void)state;
    for (int a = WEFT_OK; a <= WEFT_ERR_INTERNAL; a++) {
        assert_true(strlen(weft_status_string((weft_status)a)) > 0);
        for (int b = WEFT_OK; b < a; b++) {
            assert_string_not_equal(weft_status_string((weft_status)a), weft_status_string((weft_status)b));
        }
    }
    assert_non_null(weft_status_string((weft_status)1000));
    assert_non_null(weft_status_string((weft_status)-1));
}

static void types_have_names_and_sizes(void **state)
{
    (void)state;
    static const struct {
        weft_dtype dtype;
        const char *name;
        size_t size;
    } expected[] = {
        { WEFT_F64, "f64", 8 }, { WEFT_F32, "f32", 4 }, { WEFT_BF16, "bf16", 2 }, { WEFT_F16, "f16", 2 },
        { WEFT_I64, "i64", 8 }, { WEFT_I32, "i32", 4 }, { WEFT_U8, "u8", 1 },     { WEFT_BOOL, "bool", 1 },
    };
    assert_int_equal(WEFT_ARRAY_SIZE(expected), WEFT_DTYPE_COUNT);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(expected); i++) {
        assert_string_equal(weft_dtype_name(expected[i].dtype), expected[i].name);
        assert_int_equal(weft_dtype_size(expected[i].dtype), expected[i].size);
    }
}

static void values_that_are_no_type(void **state)
{
    (void)state;
    const int bad[] = { -1, WEFT_DTYPE_COUNT, 1000 };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(bad); i++) {
        assert_string_equal(weft_dtype_name((weft_dtype)bad[i]), "?");
        assert_int_equal(weft_dtype_size((weft_dtype)bad[i]), 0);
    }
}

/* ---- arithmetic ---------------------------------------------------------------------------------------- */

static void small_functions(void **state)
{
    (void)state;
    assert_int_equal(weft_min_i64(-3, 2), -3);
    assert_int_equal(weft_max_i64(-3, 2), 2);
    assert_int_equal(weft_ceil_div(0, 4), 0);
    assert_int_equal(weft_ceil_div(8, 4), 2);
    assert_int_equal(weft_ceil_div(9, 4), 3);
    assert_true(weft_ceil_div(INT64_MAX, 2) == INT64_MAX / 2 + 1);
}

static void products_and_sums_that_do_not_fit(void **state)
{
    (void)state;
    int64_t out = 42;
    const int64_t large = INT64_C(3037000500); /* its square is the first that does not fit */
    assert_false(weft_mul_checked(large, large, &out));
    assert_false(weft_mul_checked(INT64_MAX, 2, &out));
    assert_false(weft_mul_checked(2, INT64_MAX, &out));
    assert_false(weft_add_checked(INT64_MAX, 1, &out));
    assert_int_equal(out, 42);
    assert_true(weft_mul_checked(large - 1, large - 1, &out));
    assert_true(out == (large - 1) * (large - 1));
    assert_true(weft_mul_checked(INT64_MAX, 1, &out) && out == INT64_MAX);
    assert_true(weft_mul_checked(INT64_MAX, 0, &out) && out == 0);
    assert_true(weft_mul_checked(0, INT64_MAX, &out) && out == 0);
    assert_true(weft_add_checked(INT64_MAX - 1, 1, &out) && out == INT64_MAX);
}

static void elements_of_shapes(void **state)
{
    (void)state;
    int64_t out = 42;
    assert_true(weft_count_checked(0, NULL, &out));
    assert_int_equal(out, 1);
    assert_true(weft_count_checked(3, (int64_t[]){ 5, 3, 2 }, &out));
    assert_int_equal(out, 30);
    assert_true(weft_count_checked(3, (int64_t[]){ 5, 0, 2 }, &out));
    assert_int_equal(out, 0);
    out = 42;
    assert_false(weft_count_checked(2, (int64_t[]){ INT64_C(1) << 32, INT64_C(1) << 31 }, &out));
    assert_int_equal(out, 42);
}

/* ---- growable arrays ----------------------------------------------------------------------------------- */

static void arrays_grow_and_zero(void **state)
{
    (void)state;
    typedef struct item {
        int64_t a;
        char b;
    } item;
    weft_vec vec = { 0 };
    for (int i = 0; i < 1000; i++) {
        item *pushed = weft_vec_push(&vec, sizeof(*pushed));
        assert_non_null(pushed);
        assert_int_equal(pushed->a, 0);
        assert_int_equal(pushed->b, 0);
        assert_ptr_equal(pushed, (item *)vec.items + i);
        *pushed = (item){ i, 'x' };
    }
    assert_int_equal(vec.count, 1000);
    for (int i = 0; i < 1000; i++) {
        assert_int_equal(((item *)vec.items)[i].a, i);
    }
    weft_vec_free(&vec);
    assert_null(vec.items);
    assert_int_equal(vec.count, 0);
    weft_vec_free(&vec);
}

static void arrays_reserve(void **state)
{
    (void)state;
    weft_vec vec = { 0 };
    assert_true(weft_vec_reserve(&vec, 100, sizeof(int)));
    assert_true(vec.capacity >= 100);
    assert_int_equal(vec.count, 0);
    void *items = vec.items;
    for (int i = 0; i < 100; i++) {
        assert_non_null(weft_vec_push(&vec, sizeof(int)));
    }
    assert_ptr_equal(vec.items, items);
    assert_true(weft_vec_reserve(&vec, 10, sizeof(int)));
    assert_int_equal(vec.count, 100);
    assert_false(weft_vec_reserve(&vec, SIZE_MAX / 2, sizeof(int)));
    assert_int_equal(vec.count, 100);
    weft_vec_free(&vec);
}

/* ---- sets of pointers ---------------------------------------------------------------------------------- */

static void empty_sets(void **state)
{
    (void)state;
    int thing = 0;
    weft_ptrset set = { 0 };
    assert_false(weft_ptrset_has(&set, &thing));
    assert_false(weft_ptrset_has(&set, NULL));
    assert_null(weft_ptrset_get(&set, &thing));
    assert_false(weft_ptrset_remove(&set, &thing));
    weft_ptrset_free(&set);
}

static void a_key_added_twice_is_there_once(void **state)
{
    (void)state;
    int thing = 0, first = 1, second = 2;
    weft_ptrset set = { 0 };
    assert_true(weft_ptrset_add(&set, &thing, &first));
    assert_true(weft_ptrset_add(&set, &thing, &second));
    assert_int_equal(set.count, 1);
    assert_ptr_equal(weft_ptrset_get(&set, &thing), &second);
    assert_false(weft_ptrset_has(&set, NULL));
    assert_true(weft_ptrset_remove(&set, &thing));
    assert_false(weft_ptrset_remove(&set, &thing));
    assert_int_equal(set.count, 0);
    weft_ptrset_free(&set);
}

/* Random additions and removals, against an array of flags. */
static void sets_follow_a_model(void **state)
{
    (void)state;
    enum { KEYS = 500, ROUNDS = 200000 };
    static int things[KEYS];
    void *model[KEYS] = { NULL };
    weft_ptrset set = { 0 };
    size_t count = 0;
    uint64_t random = 1;
    for (int round = 0; round < ROUNDS; round++) {
        random = weft_hash_u64(random + (uint64_t)round);
        size_t key = random % KEYS;
        if (random >> 32 & 1) {
            void *value = &things[random >> 40 & 255];
            assert_true(weft_ptrset_add(&set, &things[key], value));
            count += model[key] == NULL;
            model[key] = value;
        } else {
            assert_int_equal(weft_ptrset_remove(&set, &things[key]), model[key] != NULL);
            count -= model[key] != NULL;
            model[key] = NULL;
        }
        assert_int_equal(set.count, count);
        size_t other = (random >> 16) % KEYS;
        assert_ptr_equal(weft_ptrset_get(&set, &things[other]), model[other]);
        assert_int_equal(weft_ptrset_has(&set, &things[other]), model[other] != NULL);
    }
    /* Removed slots are reclaimed: the table stays in proportion to what is in it. */
    assert_true(set.capacity <= 8 * KEYS);
    weft_ptrset_free(&set);
    assert_int_equal(set.count, 0);
}

/* ---- handles ------------------------------------------------------------------------------------------- */

static int object, other_object;

static void a_handle_names_its_object_until_it_is_removed(void **state)
{
    (void)state;
    weft_handle_table table = { 0 };
    void *a = weft_handle_add(&table, WEFT_HANDLE_TENSOR, &object);
    void *b = weft_handle_add(&table, WEFT_HANDLE_TENSOR, &other_object);
    assert_ptr_equal(weft_handle_get(&table, a), &object);
    assert_ptr_equal(weft_handle_get(&table, b), &other_object);
    assert_int_equal(table.num_objects, 2);
    assert_true(weft_handle_remove(&table, a));
    assert_null(weft_handle_get(&table, a));
    assert_false(weft_handle_remove(&table, a));
    assert_ptr_equal(weft_handle_get(&table, b), &other_object);
    assert_int_equal(table.num_objects, 1);
    weft_handle_table_free(&table);
    assert_null(weft_handle_get(&table, b));
}

/* Four million objects come and go, in a few slots; none of their handles comes again. */
static void handles_of_the_past_are_refused_for_ever(void **state)
{
    (void)state;
    enum { CYCLES = 4000000, ALIVE = 3 };
    weft_handle_table table = { 0 };
    void **handles = malloc(CYCLES * sizeof(*handles));
    assert_non_null(handles);
    for (size_t i = 0; i < CYCLES; i++) {
        handles[i] = weft_handle_add(&table, WEFT_HANDLE_TENSOR, &object);
        assert_non_null(handles[i]);
        assert_true(i < ALIVE || weft_handle_remove(&table, handles[i - ALIVE]));
    }
    assert_true(table.slots.count <= ALIVE + 1);
    for (size_t i = 0; i < CYCLES; i++) {
        assert_ptr_equal(weft_handle_get(&table, handles[i]), i < CYCLES - ALIVE ? NULL : &object);
    }
    free(handles);
    weft_handle_table_free(&table);
}

static void a_slot_without_a_generation_left_is_not_used_again(void **state)
{
    (void)state;
    weft_handle_table table = { 0 };
    void *first = weft_handle_add(&table, WEFT_HANDLE_MESH, &object);
    assert_true(weft_handle_remove(&table, first));
    weft_handle_slot *slot = table.slots.items;
    uint64_t generations = ((uint64_t)1 << WEFT_HANDLE_GENERATION_BITS) - 1;
    slot->handle |= generations << WEFT_HANDLE_GENERATION_SHIFT;
    void *last = weft_handle_add(&table, WEFT_HANDLE_MESH, &object);
    assert_ptr_equal(weft_handle_get(&table, last), &object);
    assert_int_equal(table.slots.count, 1);
    assert_true(weft_handle_remove(&table, last));
    void *next = weft_handle_add(&table, WEFT_HANDLE_MESH, &other_object);
    assert_int_equal(table.slots.count, 2);
    assert_ptr_equal(weft_handle_get(&table, next), &other_object);
    assert_null(weft_handle_get(&table, last));
    assert_null(weft_handle_get(&table, first));
    assert_null(weft_handle_get(&table, NULL));
    weft_handle_table_free(&table);
}

/* The slots stay, so that generations go on. */
static void all_objects_can_be_removed_at_once(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    weft_handle_table table = { 0 };
    void *handles[3][COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            handles[round][i] = weft_handle_add(&table, WEFT_HANDLE_TENSOR, &object);
        }
        for (int earlier = 0; earlier <= round; earlier++) {
            for (int i = 0; i < COUNT; i++) {
                assert_ptr_equal(weft_handle_get(&table, handles[earlier][i]),
                                 earlier == round ? &object : NULL);
            }
        }
        weft_handle_remove_all(&table);
        assert_int_equal(table.num_objects, 0);
    }
    assert_int_equal(table.slots.count, COUNT);
    weft_handle_table_free(&table);
}

/* Those of other kinds, numbers, addresses, and every value that differs from a handle in one bit. */
static void nothing_but_a_handle_is_one(void **state)
{
    (void)state;
    enum { COUNT = 10 };
    weft_handle_table table = { 0 }, meshes = { 0 };
    uint64_t handle = 0;
    for (int i = 0; i < COUNT; i++) {
        handle = (uint64_t)(uintptr_t)weft_handle_add(&table, WEFT_HANDLE_TENSOR, &object);
        assert_null(weft_handle_get(&table, weft_handle_add(&meshes, WEFT_HANDLE_MESH, &other_object)));
    }
    for (uint64_t number = 0; number < 1000000; number++) {
        assert_null(weft_handle_get(&table, (void *)(uintptr_t)number));
        assert_null(weft_handle_get(&table, (void *)(uintptr_t)(0 - number)));
    }
    void *heap = malloc(16);
    assert_null(weft_handle_get(&table, heap));
    assert_null(weft_handle_get(&table, (char *)heap + 5));
    assert_null(weft_handle_get(&table, &table));
    free(heap);
    const uint64_t slots = ((uint64_t)1 << WEFT_HANDLE_SLOT_BITS) - 1;
    for (int bit = 0; bit < 64; bit++) {
        uint64_t changed = handle ^ (uint64_t)1 << bit;
        bool another = (changed >> WEFT_HANDLE_KIND_BITS & slots) < COUNT &&
                       (handle ^ changed) >> 4 <= slots && (handle ^ changed) >> 4 != 0;
        assert_true(another || weft_handle_get(&table, (void *)(uintptr_t)changed) == NULL);
    }
    weft_handle_table_free(&table);
    weft_handle_table_free(&meshes);
}

/* ---- hashes -------------------------------------------------------------------------------------------- */

static void hashes_depend_on_every_byte_length_and_seed(void **state)
{
    (void)state;
    unsigned char data[32] = { 0 };
    for (size_t size = 0; size <= sizeof(data); size++) {
        uint64_t whole = weft_hash_bytes(data, size, 7);
        assert_true(whole == weft_hash_bytes(data, size, 7));
        assert_true(whole != weft_hash_bytes(data, size, 8));
        assert_true(size == 0 || whole != weft_hash_bytes(data, size - 1, 7));
        for (size_t i = 0; i < size; i++) {
            data[i] = 1;
            assert_true(whole != weft_hash_bytes(data, size, 7));
            data[i] = 0;
        }
    }
}

static void one_bit_changes_half_of_the_hash(void **state)
{
    (void)state;
    int changed = 0;
    for (uint64_t x = 0; x < 1000; x++) {
        for (int bit = 0; bit < 64; bit++) {
            uint64_t difference = weft_hash_u64(x) ^ weft_hash_u64(x ^ UINT64_C(1) << bit);
            for (; difference != 0; difference &= difference - 1) {
                changed++;
            }
        }
    }
    double share = changed / (1000.0 * 64 * 64);
    assert_true(share > 0.48 && share < 0.52);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_has_a_text_of_its_own),
        cmocka_unit_test(types_have_names_and_sizes),
        cmocka_unit_test(values_that_are_no_type),
        cmocka_unit_test(small_functions),
        cmocka_unit_test(products_and_sums_that_do_not_fit),
        cmocka_unit_test(elements_of_shapes),
        cmocka_unit_test(arrays_grow_and_zero),
        cmocka_unit_test(arrays_reserve),
        cmocka_unit_test(empty_sets),
        cmocka_unit_test(a_key_added_twice_is_there_once),
        cmocka_unit_test(sets_follow_a_model),
        cmocka_unit_test(a_handle_names_its_object_until_it_is_removed),
        cmocka_unit_test(handles_of_the_past_are_refused_for_ever),
        cmocka_unit_test(a_slot_without_a_generation_left_is_not_used_again),
        cmocka_unit_test(all_objects_can_be_removed_at_once),
        cmocka_unit_test(nothing_but_a_handle_is_one),
        cmocka_unit_test(hashes_depend_on_every_byte_length_and_seed),
        cmocka_unit_test(one_bit_changes_half_of_the_hash),
    };
    return cmocka_run_group_tests_name("base", tests, NULL, NULL);
}
