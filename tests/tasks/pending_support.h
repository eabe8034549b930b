/* Shared by the tests of back-pressure. */
#ifndef WEFT_TESTS_PENDING_SUPPORT_H
#define WEFT_TESTS_PENDING_SUPPORT_H

#include "support.h"

#include "runtime/pending.h"
#include "runtime/runtime.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 }; /* keeps memory that was freed */
#else
enum { SANITIZED = 0 };
#endif

/* One-dimensional, of all ranks. */
extern weft_mesh *mesh;

/* With a limit of so many pending tasks. */
void start(int64_t most, int ranks);
void start_configured(const weft_config *config);
void stop(void);
long long pending_now(void);
int64_t resident_mb(void);
void sleep_ms(long ms);

/* On `mesh`, in the placement of a text. */
weft_tensor *full(int64_t rows, double value, const char *text);
/* A task in place that takes so long: the tasks after it wait. */
void let_doze(weft_tensor *tensor, double ms);
/* A task that ends when so many tasks are pending. */
void let_await_pending(weft_tensor *tensor, int64_t count);
void check_values(weft_tensor *tensor, int64_t rows, double expected);

#endif
