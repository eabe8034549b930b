/* Blame, from the accounts of all processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "comm/judge.h"

enum { MOST = 8 };

static weft_account accounts[MOST];
static const weft_account *heard[MOST];
static const weft_awaited nobody = { false, 0, 0 };

/* Processes that have made `calls` calls, all the same, and wait for nobody. */
static void start(int processes, uint64_t calls)
{
    memset(accounts, 0, sizeof(accounts));
    for (int p = 0; p < processes; p++) {
        heard[p] = &accounts[p];
        accounts[p].calls = calls;
        for (uint64_t n = 1; n <= calls; n++) {
            accounts[p].digests[n % WEFT_ACCOUNT_CALLS] = 1000 + n;
        }
    }
}

/* A process has made other calls from this one on. */
static void differ(int process, uint64_t call)
{
    for (uint64_t n = call; n <= accounts[process].calls; n++) {
        accounts[process].digests[n % WEFT_ACCOUNT_CALLS] += 77 + call;
    }
}

static void wait_for(int process, int peer, uint64_t call)
{
    accounts[process].receive = (weft_awaited){ true, peer, call };
}

static weft_finding judge(int processes, int self)
{
    return weft_judge(processes, heard, self, &accounts[self].receive);
}

static void expect(weft_finding finding, weft_fault fault, int process, uint64_t call)
{
    assert_int_equal(finding.fault, fault);
    assert_int_equal(finding.process, process);
    assert_int_equal(finding.call, call);
}

/* Fewer are to blame; of two, neither. What one waits for does not matter. */
static void test_calls_that_differ(void **state)
{
    (void)state;
    for (int odd = 0; odd < 5; odd++) {
        start(5, 40);
        differ(odd, 33);
        for (int p = 0; p < 5; p++) {
            wait_for(p, (p + 1) % 5, 35);
        }
        weft_finding finding = judge(5, (odd + 2) % 5);
        expect(finding, WEFT_FAULT_DIFFERS, odd, 33);
        assert_false(finding.undecided || finding.earlier);
        assert_int_equal(finding.count, 1);
        assert_int_not_equal(finding.other, odd);
    }
    start(2, 10);
    differ(1, 10);
    expect(judge(2, 0), WEFT_FAULT_DIFFERS, 1, 10);
    assert_true(judge(2, 1).undecided);
    /* Two differ, each in another call: the first counts. */
    start(5, 40);
    differ(3, 20);
    differ(1, 12);
    expect(judge(5, 0), WEFT_FAULT_DIFFERS, 1, 12);
    /* Two differ from the call on, in the same way. */
    start(5, 40);
    differ(3, 20);
    differ(4, 20);
    expect(judge(5, 0), WEFT_FAULT_DIFFERS, 3, 20);
    assert_int_equal(judge(5, 0).count, 2);
}

/* A process that is behind has not made another call; and a silent process is not the first to be blamed. */
static void test_differences_of_some(void **state)
{
    (void)state;
    start(4, 30);
    accounts[0].calls = 12;
    heard[1] = NULL;
    differ(3, 20);
    weft_finding finding = judge(4, 2);
    expect(finding, WEFT_FAULT_DIFFERS, 3, 20);
    assert_true(finding.undecided);
    start(3, 30);
    accounts[2].calls = 12;
    accounts[2].digests[13] = 5; /* of what it has not made */
    wait_for(0, 2, 13);
    expect(judge(3, 0), WEFT_FAULT_BEHIND, 2, 13);
}

/* Only the last calls are kept. */
static void test_long_records(void **state)
{
    (void)state;
    start(3, 5000);
    differ(1, 4900);
    expect(judge(3, 0), WEFT_FAULT_DIFFERS, 1, 4900);
    assert_false(judge(3, 0).earlier);
    start(3, 5000);
    differ(1, 3);
    expect(judge(3, 0), WEFT_FAULT_DIFFERS, 1, 5000 - WEFT_ACCOUNT_CALLS + 1);
    assert_true(judge(3, 0).earlier);
    start(3, 5000);
    accounts[2].calls = 3000;
    memset(accounts[2].digests, 1, sizeof(accounts[2].digests));
    wait_for(0, 2, 3001);
    expect(judge(3, 0), WEFT_FAULT_BEHIND, 2, 3001);
}

static void test_silence(void **state)
{
    (void)state;
    for (int odd = 1; odd < 5; odd++) {
        start(5, 40);
        heard[odd] = NULL;
        /* 0 waits for 1, that for 2, ..., for the one that says nothing. */
        for (int p = 0; p < odd; p++) {
            wait_for(p, p + 1, 40);
        }
        expect(judge(5, 0), WEFT_FAULT_SILENT, odd, 40);
        assert_int_equal(judge(5, 0).count, 1);
    }
}

/* Everyone but one has gone on, and waits for somebody. */
static void test_one_is_behind(void **state)
{
    (void)state;
    for (int odd = 0; odd < 5; odd++) {
        for (int self = 0; self < 5; self++) {
            if (self == odd) {
                continue;
            }
            start(5, 40);
            accounts[odd].calls = 30;
            for (int p = 0; p < 5; p++) {
                wait_for(p, p + 1 == odd || p == 4 ? odd : p + 1, p < odd ? 35 : 34);
            }
            accounts[odd].receive = nobody;
            weft_finding finding = judge(5, self);
            assert_int_equal(finding.fault, WEFT_FAULT_BEHIND);
            assert_int_equal(finding.process, odd);
        }
    }
}

/* It has a receive too, of a later call, for which another one waits for it. */
static void test_one_computes(void **state)
{
    (void)state;
    start(3, 40);
    wait_for(0, 2, 31);
    wait_for(1, 0, 33);
    wait_for(2, 1, 34);
    for (int self = 0; self < 3; self += 1) {
        expect(judge(3, self), WEFT_FAULT_COMPUTES, 2, 31);
    }
}

static void test_messages_are_lost(void **state)
{
    (void)state;
    start(2, 40);
    wait_for(0, 1, 31);
    accounts[1].send = (weft_awaited){ true, 0, 31 };
    expect(judge(2, 0), WEFT_FAULT_LINK, 1, 31);
    assert_int_equal(judge(2, 0).other, 0);
    /* All wait for each other. */
    start(3, 40);
    for (int p = 0; p < 3; p++) {
        wait_for(p, (p + 1) % 3, 31);
    }
    assert_int_equal(judge(3, 0).fault, WEFT_FAULT_LINK);
}

/* What 0 and 1 are to send to each other in call 31 waits for memory that messages to 2 are still sent from. */
static void test_memory_is_still_sent(void **state)
{
    (void)state;
    for (int circle = 0; circle < 2; circle++) {
        start(3, 40);
        wait_for(0, 1, 31);
        if (circle) {
            wait_for(1, 0, 31);
        }
        accounts[0].send = (weft_awaited){ true, 2, 27 };
        accounts[1].send = (weft_awaited){ true, 2, 27 };
        heard[2] = NULL;
        expect(judge(3, 0), WEFT_FAULT_SILENT, 2, 27);
        heard[2] = &accounts[2];
        accounts[2].calls = 20;
        expect(judge(3, 0), WEFT_FAULT_BEHIND, 2, 27);
        accounts[2].calls = 40;
        expect(judge(3, 0), WEFT_FAULT_COMPUTES, 2, 27);
        wait_for(2, circle ? 0 : 1, 27);
        expect(judge(3, 0), WEFT_FAULT_LINK, circle ? 0 : 1, 27);
    }
}

/* A process that is in a meeting waits for another one to come, whatever its next call. */
static void test_meetings(void **state)
{
    (void)state;
    start(3, 40);
    accounts[1].calls = 12;
    weft_awaited wait = { true, 1, UINT64_MAX };
    expect(weft_judge(3, heard, 0, &wait), WEFT_FAULT_BEHIND, 1, UINT64_MAX);
    accounts[1].calls = 40;
    expect(weft_judge(3, heard, 0, &wait), WEFT_FAULT_COMPUTES, 1, 40);
    accounts[1].gathers = true;
    expect(weft_judge(3, heard, 0, &wait), WEFT_FAULT_NONE, 1, UINT64_MAX);
    wait_for(1, 2, 12);
    heard[2] = NULL;
    expect(weft_judge(3, heard, 0, &wait), WEFT_FAULT_SILENT, 2, 12);
    expect(weft_judge(3, heard, 0, &nobody), WEFT_FAULT_UNKNOWN, -1, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_calls_that_differ), cmocka_unit_test(test_differences_of_some),
        cmocka_unit_test(test_long_records),      cmocka_unit_test(test_silence),
        cmocka_unit_test(test_one_is_behind),     cmocka_unit_test(test_one_computes),
        cmocka_unit_test(test_messages_are_lost),
        cmocka_unit_test(test_memory_is_still_sent), cmocka_unit_test(test_meetings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
