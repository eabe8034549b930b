/* src/base: status and type names, checked arithmetic, growable arrays, the map, texts, handles, hashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/handles.h"
#include "base/heap.h"
#include "base/map.h"
#include "base/text.h"
#include "rows.h"

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
    /* clang-format off */
    static const struct {
        row_place place;
        weft_dtype dtype;
        const char *name;
        size_t size;
    } expected[] = {
        { THIS_ROW, WEFT_F64, "f64", 8 }, { THIS_ROW, WEFT_F32, "f32", 4 },
        { THIS_ROW, WEFT_BF16, "bf16", 2 }, { THIS_ROW, WEFT_F16, "f16", 2 },
        { THIS_ROW, WEFT_I64, "i64", 8 }, { THIS_ROW, WEFT_I32, "i32", 4 },
        { THIS_ROW, WEFT_U8, "u8", 1 },
        { THIS_ROW, WEFT_BOOL, "bool", 1 },
        { THIS_ROW, WEFT_C64, "c64", 8 },
        { THIS_ROW, WEFT_C128, "c128", 16 },
        { THIS_ROW, WEFT_I8, "i8", 1 }, { THIS_ROW, WEFT_I16, "i16", 2 }, { THIS_ROW, WEFT_U16, "u16", 2 },
        { THIS_ROW, WEFT_U32, "u32", 4 }, { THIS_ROW, WEFT_U64, "u64", 8 },
        { THIS_ROW, WEFT_F8_E4M3, "f8_e4m3", 1 }, { THIS_ROW, WEFT_F8_E5M2, "f8_e5m2", 1 },
    };
    /* clang-format on */
    assert_int_equal(WEFT_ARRAY_SIZE(expected), WEFT_DTYPE_COUNT);
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(expected); i++) {
        enter_row(expected[i].place, __func__);
        assert_string_equal(weft_dtype_name(expected[i].dtype), expected[i].name);
        assert_int_equal(weft_dtype_size(expected[i].dtype), expected[i].size);
    }
    leave_rows();
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

typedef struct heap_element {
    uint32_t key, number;
} heap_element;

static bool is_lower(const void *lowest_first, const void *a, const void *b)
{
    const heap_element *one = a, *other = b;
    return lowest_first != NULL ? one->key < other->key : one->key > other->key;
}

/* Pushes and pops in random order; what comes out is compared with a search through all that are in. */
static void heaps_return_the_first_element(void **state)
{
    (void)state;
    enum { STEPS = 3000, MOST = 200 };
    heap_element in[MOST], found;
    size_t count = 0;
    weft_vec heap = { 0 };
    for (uint64_t i = 0; i < 2 * STEPS; i++) {
        const void *order = i < STEPS ? &heap : NULL;
        uint64_t random = weft_hash_u64(i);
        heap.count = count = i == STEPS ? 0 : count; /* the other order begins with an empty heap */
        if (count == 0 || (count < MOST && random % 100 < 52)) {
            in[count] = (heap_element){ (uint32_t)(random >> 32) % 64, (uint32_t)i };
            assert_true(weft_heap_push(&heap, sizeof(in[count]), &in[count], is_lower, order));
            count++;
            continue;
        }
        weft_heap_pop(&heap, sizeof(found), &found, is_lower, order);
        size_t place = count;
        for (size_t k = 0; k < count; k++) {
            assert_false(is_lower(order, &in[k], &found));
            place = in[k].number == found.number && in[k].key == found.key ? k : place;
        }
        assert_true(place < count);
        in[place] = in[--count];
    }
    weft_vec_free(&heap);
}

/* ---- the map ------------------------------------------------------------------------------------------- */

/* The value of a hash that is this one; NULL: it is not there. */
static weft_map_slot *slot_of(const weft_map *map, uint64_t hash, const void *value)
{
    weft_map_slot *slot = weft_map_first(map, hash);
    while (slot != NULL && slot->value != value) {
        slot = weft_map_next(map, slot);
    }
    return slot;
}

static void empty_maps(void **state)
{
    (void)state;
    int thing = 0;
    weft_map map = { 0 };
    assert_null(weft_map_first(&map, 0));
    assert_null(weft_map_first(&map, 17));
    assert_null(weft_map_each(&map, NULL));
    assert_false(weft_map_has_pointer(&map, &thing));
    assert_false(weft_map_has_pointer(&map, NULL));
    assert_false(weft_map_remove_pointer(&map, &thing));
    weft_map_free(&map);
}

static void values_of_one_hash_stand_beside_each_other(void **state)
{
    (void)state;
    int things[40];
    weft_map map = { 0 };
    for (int i = 0; i < 40; i++) {
        assert_true(weft_map_add(&map, i < 20 ? 5 : 21, &things[i])); /* one slot at first, then two */
    }
    assert_int_equal(map.count, 40);
    for (int i = 0; i < 40; i++) {
        assert_non_null(slot_of(&map, i < 20 ? 5 : 21, &things[i]));
        assert_null(slot_of(&map, i < 20 ? 21 : 5, &things[i]));
    }
    weft_map_slot *slot = slot_of(&map, 5, &things[3]);
    slot->value = &things[39];
    assert_non_null(slot_of(&map, 5, &things[39]));
    weft_map_free(&map);
    assert_int_equal(map.count, 0);
    assert_null(weft_map_first(&map, 5));
}

/* Random additions, removals and look-ups compared with a list, with spread hashes and with colliding
 * ones. */
typedef struct map_entry {
    uint64_t hash;
    void *value;
} map_entry;

enum { MAP_ENTRIES = 600 };

static void check_against(const weft_map *map, const map_entry list[], size_t count)
{
    assert_int_equal(map->count, count);
    size_t seen = 0;
    for (weft_map_slot *slot = weft_map_each(map, NULL); slot != NULL; slot = weft_map_each(map, slot)) {
        seen++;
    }
    assert_int_equal(seen, count);
    for (size_t i = 0; i < count; i++) {
        assert_non_null(slot_of(map, list[i].hash, list[i].value));
    }
}

static void follow_a_list(uint64_t seed, uint64_t num_hashes, size_t most)
{
    enum { ROUNDS = 20000 };
    static char things[MAP_ENTRIES];
    map_entry list[MAP_ENTRIES];
    size_t count = 0;
    weft_map map = { 0 };
    uint64_t random = seed;
    for (uint64_t round = 0; round < ROUNDS; round++) {
        random = weft_hash_u64(random + round);
        uint64_t hash = (random >> 8) % num_hashes;
        hash = num_hashes > 64 ? weft_hash_u64(hash) : hash << (random >> 60);
        if (count < most && (random & 7) < 4) {
            list[count] = (map_entry){ hash, &things[random % MAP_ENTRIES] };
            assert_true(weft_map_add(&map, hash, list[count].value));
            count++;
        } else if (count > 0) {
            size_t gone = (random >> 20) % count;
            weft_map_slot *slot = slot_of(&map, list[gone].hash, list[gone].value);
            assert_non_null(slot);
            weft_map_remove(&map, slot);
            list[gone] = list[--count];
        }
        size_t there = 0, found = 0;
        for (size_t i = 0; i < count; i++) {
            there += list[i].hash == hash;
        }
        for (weft_map_slot *slot = weft_map_first(&map, hash); slot != NULL;
             slot = weft_map_next(&map, slot)) {
            assert_true(slot->hash == hash);
            found++;
        }
        assert_int_equal(found, there);
        if (round % 500 == 0) {
            check_against(&map, list, count);
        }
    }
    check_against(&map, list, count);
    /* Removed values leave nothing behind: the number of slots is proportional to the largest number of
     * values. */
    assert_true(map.capacity <= 4 * most + 16);
    weft_map_free(&map);
}

static void maps_follow_a_list(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 4; seed++) {
        follow_a_list(seed, UINT64_C(1) << 40, MAP_ENTRIES);
        follow_a_list(seed, 300, 200);
        follow_a_list(seed, 7, 30);
        follow_a_list(seed, 2, 7);
    }
}

static void room_that_is_made(void **state)
{
    (void)state;
    static char things[300];
    weft_map map = { 0 };
    for (size_t count = 0; count <= 300; count += 60) {
        assert_true(weft_map_reserve(&map, count));
        weft_map_slot *slots = map.slots;
        while (map.count < count) {
            assert_true(weft_map_add(&map, map.count % 7, &things[map.count]));
        }
        assert_ptr_equal(map.slots, slots);
    }
    for (size_t i = 0; i < 300; i++) {
        assert_non_null(slot_of(&map, i % 7, &things[i]));
    }
    assert_true(weft_map_reserve(&map, 10));
    assert_int_equal(map.count, 300);
    weft_map_free(&map);
}

static void a_map_as_a_set(void **state)
{
    (void)state;
    static int things[1000];
    weft_map set = { 0 };
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 1000; i++) {
            assert_true(weft_map_add_pointer(&set, &things[i]));
            assert_true(weft_map_add_pointer(&set, &things[i / 2]));
        }
        assert_int_equal(set.count, 1000);
        for (int i = 0; i < 1000; i += 2) {
            assert_true(weft_map_remove_pointer(&set, &things[i]));
            assert_false(weft_map_remove_pointer(&set, &things[i]));
        }
        for (int i = 0; i < 1000; i++) {
            assert_int_equal(weft_map_has_pointer(&set, &things[i]), i % 2);
        }
        assert_int_equal(set.count, 500);
    }
    weft_map_free(&set);
}

/* ---- texts --------------------------------------------------------------------------------------------- */

static void texts_are_cut_off_and_counted(void **state)
{
    (void)state;
    for (size_t size = 0; size < 20; size++) {
        char buffer[21];
        memset(buffer, '#', sizeof(buffer));
        weft_text text = weft_text_in(size == 0 ? NULL : buffer, size);
        weft_text_add(&text, "%s-%d", "abc", 42);
        weft_text_add_sizes(&text, 3, (int64_t[]){ 5, 0, 13 }, "x");
        weft_text_add(&text, "%s", "");
        const char expected[] = "abc-425x0x13";
        assert_int_equal(text.length, strlen(expected));
        if (size > 0) {
            size_t kept = size - 1 < strlen(expected) ? size - 1 : strlen(expected);
            assert_int_equal(strlen(buffer), kept);
            assert_memory_equal(buffer, expected, kept);
            assert_int_equal(buffer[size], '#');
        }
        weft_text_free(&text);
    }
}

static void texts_grow(void **state)
{
    (void)state;
    weft_text text = weft_text_growing();
    char expected[4000] = "";
    size_t length = 0;
    for (int i = 0; i < 700; i++) {
        weft_text_add(&text, "%d,", i);
        length += (size_t)snprintf(expected + length, sizeof(expected) - length, "%d,", i);
        assert_int_equal(text.length, length);
        assert_string_equal(text.characters, expected);
    }
    assert_false(text.failed);
    weft_text_free(&text);
    assert_null(text.characters);
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

/* Handles of other kinds, numbers, addresses, and every value that differs from a handle in one bit. */
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
        cmocka_unit_test(heaps_return_the_first_element),
        cmocka_unit_test(empty_maps),
        cmocka_unit_test(values_of_one_hash_stand_beside_each_other),
        cmocka_unit_test(maps_follow_a_list),
        cmocka_unit_test(room_that_is_made),
        cmocka_unit_test(a_map_as_a_set),
        cmocka_unit_test(texts_are_cut_off_and_counted),
        cmocka_unit_test(texts_grow),
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
