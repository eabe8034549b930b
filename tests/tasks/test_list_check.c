/* What weft_task_list_check() refuses, and says of it: lists of one temporary of 64 bytes, which a task fills and a message takes away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "codelets/constant.h"
#include "tasks/check.h"
#include "tasks/tasks.h"

enum { ELEMENTS = 8, BYTES = 64 };

/* A list with one thing wrong, or nothing. */
typedef struct wanted_list {
    int64_t elements;         /* that the task writes */
    weft_slot_access access;  /* as its operand declares; 0: it has no operand */
    int64_t panel;            /* of its slot: the number of a temporary */
    bool fills, sends;        /* whether there is such a task, such a message */
    uint32_t tag;             /* of the message */
    int64_t sent_bytes;
} wanted_list;

static const wanted_list whole = { ELEMENTS, WEFT_SLOT_WRITE, 0, true, true, 0, BYTES };

static void build(weft_task_list *list, const wanted_list *w)
{
    weft_slot slot = weft_task_new_temporary(list, BYTES);
    weft_slot filled = slot;
    filled.panel = w->panel;
    if (w->fills) {
        weft_constant_args *args = weft_task_begin(list, WEFT_KERNEL_constant, sizeof(*args));
        assert_non_null(args);
        args->base.dtype = WEFT_F64;
        args->count = w->elements;
        args->value = 1;
        if (w->access != 0) {
            weft_task_add(list, filled, 0, w->access);
        }
        assert_true(weft_task_end(list, 0));
    }
    if (w->sends) {
        const weft_task_message message = { .peer = 1, .tag = w->tag, .region = { .run_bytes = w->sent_bytes } };
        weft_transfer_begin(list, WEFT_RECORD_SEND, slot, WEFT_SLOT_READ);
        assert_true(weft_transfer_add(list, &message));
    }
    assert_true(weft_task_list_finish(list));
}

static weft_status check(const wanted_list *w, char *why, size_t size)
{
    const weft_task_call call = { .num_tensors = 0 };
    weft_task_list list = { .failed = false };
    build(&list, w);
    weft_status status = weft_task_list_check(&list, &call, why, size);
    weft_task_list_free(&list);
    return status;
}

static void refuses(wanted_list w, const char *expected)
{
    char why[256] = "";
    assert_int_equal(check(&w, why, sizeof(why)), WEFT_ERR_STATE);
    if (strstr(why, expected) == NULL) {
        fail_msg("\"%s\" has no \"%s\"", why, expected);
    }
}

static wanted_list with_tag(uint32_t tag)
{
    wanted_list w = whole;
    w.tag = tag;
    return w;
}

static void test_whole_list(void **state)
{
    (void)state;
    char why[256] = "";
    assert_int_equal(check(&whole, why, sizeof(why)), WEFT_OK);
    assert_string_equal(why, "");
}

static void test_slots_and_operands(void **state)
{
    (void)state;
    wanted_list w = whole;
    w.panel = 7;
    refuses(w, "there is no temporary 7");
    w = whole;
    w.access = WEFT_SLOT_READ;
    refuses(w, "the operand does not declare it");
    w = whole;
    w.access = (weft_slot_access)0;
    refuses(w, "task 0 (constant) has no operand 0");
    w = whole;
    w.elements = ELEMENTS + 1;
    refuses(w, "task 0 (constant) writes bytes 0 to 72 of temporary 0: it has 64");
}

static void test_values(void **state)
{
    (void)state;
    wanted_list w = whole;
    w.sends = false;
    refuses(w, "temporary 0 has values that no task reads");
    w = whole;
    w.fills = false;
    refuses(w, "task 0 (send) reads bytes");
    w = whole;
    w.elements = ELEMENTS / 2; /* the message reads what nobody wrote */
    refuses(w, "task 1 (send) reads bytes");
    w = whole;
    w.sent_bytes = 2 * BYTES;
    refuses(w, "task 1 (send) reads bytes 0 to 128 of temporary 0: it has 64");
}

static void test_tags(void **state)
{
    (void)state;
    refuses(with_tag(1), "a message with process 1 has tag 1, expected 0");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_whole_list),
        cmocka_unit_test(test_slots_and_operands),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_tags),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
