/* Who is to blame when nothing moves: from what each process tells of itself. Values in, values out. */
#ifndef WEFT_SRC_COMM_JUDGE_H
#define WEFT_SRC_COMM_JUDGE_H

#include "base/base.h"

enum { WEFT_ACCOUNT_CALLS = 256, WEFT_ACCOUNT_TEXT = 384 };

/* A message that a process waits for, the oldest of those that have their panel. */
typedef struct weft_awaited {
    bool waits;
    int32_t peer; /* process */
    uint64_t call;
} weft_awaited;

/* What a process tells of itself: sent as it is, between processes of one program. */
typedef struct weft_account {
    uint64_t calls; /* made so far */
    uint64_t
        digests[WEFT_ACCOUNT_CALLS]; /* of call n at n % WEFT_ACCOUNT_CALLS, of the last ones; 0: not kept */
    weft_awaited receive, send;
    int32_t transfers;      /* pending */
    int32_t without_panels; /* of these, those whose panels tasks, or the program, still have */
    int32_t gathers;        /* the submitting thread waits for the others in a gather or broadcast */
    double since_last_call_s;
    uint64_t asked; /* a call that was asked for */
    char text
        [WEFT_ACCOUNT_TEXT]; /* that call, or the last one where it has not been made; "": it is not kept */
} weft_account;

typedef enum weft_fault {
    WEFT_FAULT_UNKNOWN,
    WEFT_FAULT_DIFFERS,  /* made another call than the others */
    WEFT_FAULT_SILENT,   /* does not answer */
    WEFT_FAULT_BEHIND,   /* has not come to the call, and waits for nobody */
    WEFT_FAULT_COMPUTES, /* has made the call, and has not computed what it is to send, or to receive into */
    WEFT_FAULT_LINK,     /* has done all: the messages to `other` do not move */
    WEFT_FAULT_NONE      /* is in a gather or broadcast too, and waits for the others */
} weft_fault;

typedef struct weft_finding {
    weft_fault fault;
    int process;    /* to blame; -1: not known */
    int other;      /* DIFFERS: one of those that made the other call; LINK: the other end */
    int count;      /* DIFFERS, SILENT: processes of which the same is true */
    bool undecided; /* DIFFERS: as many made one call as the other */
    bool earlier;   /* DIFFERS: they may have differed before this call, of which nothing is kept */
    uint64_t
        call; /* DIFFERS: the first known to differ; BEHIND, COMPUTES, LINK: the one that is waited for */
} weft_finding;

/* The first call that differs between two processes, both of which have it; 0: none that is kept. */
uint64_t weft_accounts_differ(const weft_account *a, const weft_account *b);

/* `accounts`: of `processes` processes; NULL: did not answer. The process `self` waits as `wait` says (with
 * wait->call UINT64_MAX: for that process to come to a gather or broadcast). What is true of all processes comes first:
 * calls that differ; else the waits are followed from process to process. */
weft_finding weft_judge(int processes, const weft_account *const accounts[], int self,
                        const weft_awaited *wait);

#endif
