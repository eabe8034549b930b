/* Task lists: built, shared, compared and counted without StarPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prng.h"
#include "tasks/tasks.h"

enum { FIRST = WEFT_KERNEL_add, SECOND = WEFT_KERNEL_softmax };

typedef struct arguments {
    int64_t number;
} arguments;

/* A task with one argument and one slot per panel of [panel, panel + operands) of tensor 0. */
static void add_task(weft_task_list *list, weft_kernel_id kernel, int64_t number, int64_t panel, int operands)
{
    arguments *args = weft_task_begin(list, kernel, sizeof(*args));
    assert_non_null(args);
    assert_int_equal(args->number, 0);
    args->number = number;
    for (int i = 0; i < operands; i++) {
        int added = weft_task_add(list, (weft_slot){ 0, 0, panel + i }, 8 * i,
                                  i == 0 ? WEFT_SLOT_WRITE : WEFT_SLOT_READ);
        assert_int_equal(added, i);
    }
    assert_true(weft_task_end(list, 0.5));
}

static void test_slots_are_numbered_once(void **state)
{
    (void)state;
    enum { PANELS = 1000 };
    weft_task_list list = { .failed = false };
    for (int64_t panel = 0; panel + 1 < PANELS; panel++) {
        add_task(&list, FIRST, 1, panel, 2);
    }
    assert_true(weft_task_list_finish(&list));
    assert_int_equal(list.slots.count, PANELS);
    assert_int_equal(list.tasks.count, PANELS - 1);
    assert_int_equal(list.max_operands, 2);
    for (size_t i = 0; i < list.tasks.count; i++) {
        const weft_task *task = weft_task_list_tasks(&list) + i;
        assert_int_equal(task->num_operands, 2);
        for (int k = 0; k < 2; k++) {
            const weft_task_operand *operand = weft_task_operand_at(&list, task, (uint32_t)k);
            assert_int_equal(weft_task_list_slots(&list)[operand->slot].panel, (int64_t)i + k);
            assert_int_equal(operand->offset, 8 * k);
        }
    }
    weft_task_list_free(&list);
}

/* Random operands, of which more or fewer last ones are those of the task before, beside a plain copy. */
static void test_equal_operands_are_shared(void **state)
{
    (void)state;
    enum { TASKS = 3000, MOST = 40 };
    static weft_task_operand plain[TASKS][MOST];
    static int counts[TASKS];
    weft_task_list list = { .failed = false };
    prng r = prng_start(8);
    size_t all = 0;
    for (int t = 0; t < TASKS; t++) {
        int kept = t == 0 ? 0 : (int)prng_below(&r, counts[t - 1] + 1);
        counts[t] = t > 0 && prng_below(&r, 4) > 0 ? counts[t - 1] : 1 + (int)prng_below(&r, MOST);
        arguments *args = weft_task_begin(&list, FIRST, sizeof(*args));
        assert_non_null(args);
        for (int i = 0; i < counts[t]; i++) {
            bool same = t > 0 && counts[t] == counts[t - 1] && i >= counts[t] - kept;
            int64_t panel = prng_below(&r, 50), offset = 8 * prng_below(&r, 2);
            weft_slot slot = same ? weft_task_list_slots(&list)[plain[t - 1][i].slot] : (weft_slot){ 0, 0, panel };
            offset = same ? plain[t - 1][i].offset : offset;
            uint32_t access = same ? plain[t - 1][i].access : prng_below(&r, 3) == 0 ? WEFT_SLOT_WRITE : WEFT_SLOT_READ;
            assert_int_equal(weft_task_add(&list, slot, offset, (weft_slot_access)access), i);
            plain[t][i] = *weft_task_operand_at(&list, weft_task_list_tasks(&list) + t, (uint32_t)i);
            assert_int_equal(plain[t][i].offset, offset);
            assert_int_equal(plain[t][i].access, access);
        }
        all += (size_t)counts[t];
        assert_true(weft_task_end(&list, 0.5));
    }
    assert_true(weft_task_list_finish(&list));
    assert_in_range(list.operands.count, all / 2, all * 9 / 10);
    for (int t = 0; t < TASKS; t++) {
        const weft_task *task = weft_task_list_tasks(&list) + t;
        assert_int_equal(task->num_operands, counts[t]);
        for (int i = 0; i < counts[t]; i++) {
            const weft_task_operand *operand = weft_task_operand_at(&list, task, (uint32_t)i);
            assert_memory_equal(operand, &plain[t][i], sizeof(*operand));
        }
    }
    weft_task_list_free(&list);
}

/* As of a kernel that takes all panels of a second input for each of the first: these stand once. */
static void test_last_operands_stand_once(void **state)
{
    (void)state;
    enum { TASKS = 500, OWN = 2, LAST = 128 };
    weft_task_list list = { .failed = false };
    for (int t = 0; t < TASKS; t++) {
        assert_non_null(weft_task_begin(&list, FIRST, sizeof(arguments)));
        for (int i = 0; i < OWN + LAST; i++) {
            weft_slot slot = i < OWN ? (weft_slot){ i, 0, t } : (weft_slot){ OWN, 0, i };
            weft_task_add(&list, slot, 0, i == 0 ? WEFT_SLOT_WRITE : WEFT_SLOT_READ);
        }
        assert_true(weft_task_end(&list, 0));
    }
    assert_true(weft_task_list_finish(&list));
    assert_int_equal(list.operands.count, TASKS * OWN + LAST);
    assert_in_range(weft_task_list_bytes(&list) / TASKS, 1, 130);
    weft_task_list_free(&list);
}

static void test_equal_arguments_are_shared(void **state)
{
    (void)state;
    weft_task_list list = { .failed = false };
    for (int i = 0; i < 100; i++) {
        add_task(&list, FIRST, i == 99 ? 7 : 3, i, 1);
    }
    add_task(&list, SECOND, 3, 0, 1);
    assert_int_equal(list.arguments.count, 3);
    const weft_task *tasks = weft_task_list_tasks(&list);
    assert_int_equal(tasks[0].arguments, tasks[98].arguments);
    assert_int_not_equal(tasks[0].arguments, tasks[99].arguments);
    assert_int_not_equal(tasks[0].arguments, tasks[100].arguments); /* of another kernel */
    arguments own;
    assert_int_equal(((arguments *)weft_task_arguments(&list, &tasks[99], &own))->number, 7);
    assert_int_equal(weft_task_block_of(&list, &tasks[99])->size, sizeof(arguments));
    /* A task of a product takes less than 100 bytes where its arguments are those of others. */
    assert_true(weft_task_list_bytes(&list) < 101 * 100 + 4096);
    weft_task_list_free(&list);
}

/* Arguments that differ in few words are one block, and the words. */
static void test_different_words_are_kept(void **state)
{
    (void)state;
    enum { WORDS = 40, TASKS = 500 };
    prng random = prng_start(4);
    weft_task_list list = { .failed = false };
    static int64_t expected[TASKS][WORDS];
    for (int i = 0; i < TASKS; i++) {
        int64_t *own = weft_task_begin(&list, FIRST, sizeof(expected[0]));
        assert_non_null(own);
        for (int k = 0; k < WORDS; k++) {
            bool other = prng_below(&random, i % 50 == 0 ? 2 : 20) == 0;
            own[k] = expected[i][k] = other ? prng_below(&random, 1000) : k;
        }
        weft_task_add(&list, (weft_slot){ 0, 0, i }, 0, WEFT_SLOT_WRITE);
        assert_true(weft_task_end(&list, 0));
    }
    assert_true(weft_task_list_finish(&list));
    int64_t own[WORDS];
    for (int i = 0; i < TASKS; i++) {
        weft_task_arguments(&list, weft_task_list_tasks(&list) + i, own);
        assert_memory_equal(own, expected[i], sizeof(own));
    }
    print_message("# %d tasks with %d words: %zu bytes each\n", TASKS, WORDS,
                  weft_task_list_bytes(&list) / TASKS);
    assert_true(list.arguments.count < TASKS / 4);
    weft_task_list_free(&list);
}

static void test_lists_are_compared(void **state)
{
    (void)state;
    for (int difference = 0; difference < 6; difference++) {
        weft_task_list lists[2] = { { .failed = false }, { .failed = false } };
        for (int k = 0; k < 2; k++) {
            bool other = k == 1;
            for (int i = 0; i < 3; i++) {
                bool here = other && i == 1;
                add_task(&lists[k], here && difference == 1 ? SECOND : FIRST, here && difference == 2 ? 4 : 3,
                         here && difference == 3 ? 9 : i, here && difference == 4 ? 1 : 2);
            }
            if (other && difference == 5) {
                weft_task_new_temporary(&lists[k], 16);
            }
            assert_true(weft_task_list_finish(&lists[k]));
        }
        assert_int_equal(weft_task_list_equal(&lists[0], &lists[1]), difference == 0);
        weft_task_list_free(&lists[0]);
        weft_task_list_free(&lists[1]);
    }
}

/* Temporaries live from the first task that uses them to the last: against counting at every task. */
static void test_peak_of_temporaries(void **state)
{
    (void)state;
    prng random = prng_start(3);
    for (int round = 0; round < 300; round++) {
        enum { MOST = 8, TASKS = 12 };
        weft_task_list list = { .failed = false };
        int count = (int)prng_below(&random, MOST + 1);
        int64_t bytes[MOST], live[TASKS] = { 0 };
        int first[MOST], last[MOST];
        weft_slot slots[MOST];
        for (int i = 0; i < count; i++) {
            bool in_order = round % 2 == 1; /* of one size, in the order of their first use */
            bytes[i] = in_order ? 64 : prng_below(&random, 100);
            slots[i] = weft_task_new_temporary(&list, bytes[i]);
            int least = in_order && i > 0 ? first[i - 1] : 0;
            first[i] = least + (int)prng_below(&random, TASKS - least);
            last[i] = first[i] + (int)prng_below(&random, TASKS - first[i]);
        }
        for (int t = 0; t < TASKS; t++) {
            assert_non_null(weft_task_begin(&list, FIRST, sizeof(arguments)));
            for (int i = 0; i < count; i++) {
                if (t == first[i] || t == last[i]) {
                    weft_task_add(&list, slots[i], 0, WEFT_SLOT_READ_WRITE);
                }
                live[t] += first[i] <= t && t <= last[i] ? bytes[i] : 0;
            }
            assert_true(weft_task_end(&list, 0));
        }
        int64_t peak = 0;
        for (int t = 0; t < TASKS; t++) {
            peak = weft_max_i64(peak, live[t]);
        }
        assert_int_equal(weft_task_list_peak(&list), peak);
        assert_true(weft_task_list_finish(&list));
        const weft_temporary *all = list.temporaries.items;
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < i; k++) {
                bool apart = last[i] < first[k] || last[k] < first[i];
                assert_true(all[i].buffer != all[k].buffer || (apart && bytes[i] == bytes[k]));
            }
        }
        /* Memory is what lives at the same time. */
        assert_true(weft_task_list_buffer_bytes(&list) >= peak);
        assert_true(round % 2 == 0 || weft_task_list_buffer_bytes(&list) == peak);
        weft_task_list_free(&list);
    }
}

static void test_printing(void **state)
{
    (void)state;
    weft_task_list list = { .failed = false };
    add_task(&list, FIRST, 1, 4, 2);
    weft_slot temporary = weft_task_new_temporary(&list, 24);
    assert_non_null(weft_task_begin(&list, SECOND, 0));
    weft_task_add(&list, temporary, 0, WEFT_SLOT_READ_WRITE);
    assert_true(weft_task_end(&list, 0));
    char text[400] = "";
    FILE *file = fmemopen(text, sizeof(text), "w");
    assert_non_null(file);
    weft_task_list_print(&list, file);
    fclose(file);
    assert_string_equal(text, "temporary 0: 24 bytes\n"
                              "0 add  w t0[0].4  r t0[0].5+8\n"
                              "1 softmax  rw temporary 0\n");
    weft_task_list_free(&list);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_slots_are_numbered_once),  cmocka_unit_test(test_equal_operands_are_shared),
        cmocka_unit_test(test_last_operands_stand_once),
        cmocka_unit_test(test_equal_arguments_are_shared),
        cmocka_unit_test(test_different_words_are_kept), cmocka_unit_test(test_lists_are_compared),
        cmocka_unit_test(test_peak_of_temporaries),      cmocka_unit_test(test_printing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
