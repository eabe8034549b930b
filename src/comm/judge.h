/* Finds the process to blame when nothing moves: a pure function of the accounts of all processes. */
#ifndef WEFT_SRC_COMM_JUDGE_H
#define WEFT_SRC_COMM_JUDGE_H

#include "base/base.h"

enum { WEFT_ACCOUNT_CALLS = 256, WEFT_ACCOUNT_TEXT = 384 };

/* An awaited message: the oldest of those whose panel is granted. */
typedef struct weft_awaited {
    bool waits;
    int32_t peer; /* process */
    uint64_t call;
} weft_awaited;

/* The account of one process, sent as bytes between processes of one program. */
typedef struct weft_account {
    uint64_t calls; /* calls made so far */
    uint64_t
        digests[WEFT_ACCOUNT_CALLS]; /* of the last calls, call n at n % WEFT_ACCOUNT_CALLS; 0: not recorded */
    weft_awaited receive, send;
    int32_t transfers;      /* pending transfers */
    int32_t without_panels; /* pending transfers whose panels tasks, or the program, still use */
    int32_t gathers;        /* the submitting thread waits in a gather or broadcast */
    double since_last_call_s;
    uint64_t asked; /* number of the call asked for */
    char text
        [WEFT_ACCOUNT_TEXT]; /* its text, or that of the last call if it has not been made; "": not recorded */
} weft_account;

typedef enum weft_fault {
    WEFT_FAULT_UNKNOWN,
    WEFT_FAULT_DIFFERS,  /* made another call than the others */
    WEFT_FAULT_SILENT,   /* does not answer */
    WEFT_FAULT_BEHIND,   /* has not come to the call, and waits for nobody */
    WEFT_FAULT_COMPUTES, /* has made the call, but not computed what it is to send or receive into */
    WEFT_FAULT_LINK,     /* has done all: the messages to `other` do not move */
    WEFT_FAULT_NONE      /* also waits in a gather or broadcast */
} weft_fault;

typedef struct weft_finding {
    weft_fault fault;
    int process;    /* to blame; -1: unknown */
    int other;      /* DIFFERS: one process that made the other call; LINK: the other end */
    int count;      /* DIFFERS, SILENT: number of processes in this state */
    bool ended;     /* SILENT: known to have ended */
    bool undecided; /* DIFFERS: both calls were made by equally many processes */
    bool earlier;   /* DIFFERS: they may differ since an earlier call, no longer recorded */
    uint64_t
        call; /* DIFFERS: the first call known to differ; BEHIND, COMPUTES, LINK: the awaited call */
} weft_finding;

/* The first call that differs between two processes, among those recorded on both; 0: none. */
uint64_t weft_accounts_differ(const weft_account *a, const weft_account *b);

/* `accounts`: one per process; NULL: no answer. Process `self` waits as `wait` says (wait->call
 * UINT64_MAX: for that process in a gather or broadcast). Differing calls are reported first; else the
 * waits are followed from process to process. */
weft_finding weft_judge(int processes, const weft_account *const accounts[], int self,
                        const weft_awaited *wait);

#endif
