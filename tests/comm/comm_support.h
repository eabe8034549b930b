/* Shared by the tests of the communication engine: StarPU, and a transport within one process, whose
 * messages to itself are matched by tag, and end late and out of order. */
#ifndef WEFT_TESTS_COMM_SUPPORT_H
#define WEFT_TESTS_COMM_SUPPORT_H

#include "support.h"

#include "comm/comm.h"

enum { MAX_POSTED = 4096 };

typedef struct posted {
    bool used, receive;
    weft_message message;
    char *memory;
    void *token;
    int delay; /* polls until it may end */
} posted;

typedef struct loopback {
    posted all[MAX_POSTED];
    prng random;
    bool closed, abandoned;
    int fail_start, fail_end; /* the messages with these tags fail; -1: none */
    double gap_us;            /* between the ends of two messages, at least */
    double last_end_us;
} loopback;

/* The transport of the engine started last. */
extern loopback the_loopback;

weft_transport loopback_transport(void);
weft_comm *start_engine(void);
weft_comm *start_engine_with(double timeout_s);

/* A group's setup and teardown. */
int start_starpu(void **state);
int stop_starpu(void **state);
/* A task that counts on each int of a handle. */
void submit_add_one(starpu_data_handle_t handle);

/* From process 0, contiguous. */
weft_message plain_message(uint32_t tag, int64_t bytes);
/* Packs a region into contiguous bytes, or the reverse. */
void move_region(const weft_region *region, char *memory, char *packed, bool unpack);

/* Asserts that what the engine prints of pending transfers has both texts. */
void assert_pending_says(weft_comm *comm, const char *first, const char *second);

#endif
