/* Plans of Fourier transforms that are kept, weft's own and those of a library, under one bound of bytes. They are made once, shared by
 * threads, and destroyed when the runtime ends. */
#ifndef WEFT_CODELETS_CPU_FFT_CACHE_H
#define WEFT_CODELETS_CPU_FFT_CACHE_H

#include <weft/base.h>

/* The first member of a plan. */
typedef struct weft_fft_kept {
    const struct weft_fft_maker *maker;
    struct weft_fft_kept *older;
    int64_t bytes; /* of the plan and its own memory, or about so many: set by the maker */
    int users;
} weft_fft_kept;

/* How plans of a sort are made. `wanted` describes one. */
typedef struct weft_fft_maker {
    bool (*same)(const weft_fft_kept *plan, const void *wanted);
    weft_fft_kept *(*make)(const void *wanted); /* by any thread, without a lock; may obtain other plans. NULL: no plan */
    void (*destroy)(weft_fft_kept *plan);       /* as make(); may release others */
} weft_fft_maker;

/* The plan for one more user, made if it is not kept. NULL: the maker has none. Give it back with weft_fft_release(). */
weft_fft_kept *weft_fft_obtain(const weft_fft_maker *maker, const void *wanted);
void weft_fft_release(weft_fft_kept *plan);

#endif
