/* Fourier transforms by FFTW (M. Frigo and S. G. Johnson, "The design and implementation of FFTW3", Proceedings of the IEEE 93 (2005)) or a
 * library with its interface. Plans are estimated, not measured: they depend on sizes, distances and alignment alone, so that replicas
 * have equal bits. One plan at a time is made or destroyed, as FFTW asks; any number of threads use one. */
#include "codelets/cpu/fft_cache.h"
#include "codelets/cpu/fft_library.h"

#include <fftw3.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* FFTW's functions of one precision. Plans are `void *`, because each precision has a type of its own. */
typedef struct interface {
    void *(*plan)(const weft_fft_batch *batch, void *in, void *out);
    void (*execute)(const weft_fft_batch *batch, void *plan, void *in, void *out);
    void (*destroy)(void *plan);
    int (*alignment)(void *numbers);
} interface;

#define INTERFACE(T, F)                                                                                      \
    static void *plan_##T(const weft_fft_batch *b, void *in, void *out)                                      \
    {                                                                                                        \
        const F##_iodim64 line = { b->n, b->in_step, b->out_step }, lines = { b->count, b->in_apart, b->out_apart }; \
        const unsigned flags = FFTW_ESTIMATE | FFTW_PRESERVE_INPUT;                                          \
        switch ((int)b->kind) {                                                                              \
        case WEFT_FFT_REAL_KIND:                                                                             \
            return F##_plan_guru64_dft_r2c(1, &line, 1, &lines, in, out, flags);                             \
        case WEFT_FFT_HALF_KIND:                                                                             \
            return F##_plan_guru64_dft_c2r(1, &line, 1, &lines, in, out, flags);                             \
        default:                                                                                             \
            return F##_plan_guru64_dft(1, &line, 1, &lines, in, out,                                         \
                                       b->kind == WEFT_FFT_INVERSE_KIND ? FFTW_BACKWARD : FFTW_FORWARD, flags); \
        }                                                                                                    \
    }                                                                                                        \
    static void execute_##T(const weft_fft_batch *b, void *plan, void *in, void *out)                        \
    {                                                                                                        \
        switch ((int)b->kind) {                                                                              \
        case WEFT_FFT_REAL_KIND:                                                                             \
            F##_execute_dft_r2c(plan, in, out);                                                              \
            break;                                                                                           \
        case WEFT_FFT_HALF_KIND:                                                                             \
            F##_execute_dft_c2r(plan, in, out);                                                              \
            break;                                                                                           \
        default:                                                                                             \
            F##_execute_dft(plan, in, out);                                                                  \
            break;                                                                                           \
        }                                                                                                    \
    }                                                                                                        \
    static void destroy_##T(void *plan)                                                                      \
    {                                                                                                        \
        F##_destroy_plan(plan);                                                                              \
    }                                                                                                        \
    static int alignment_##T(void *numbers)                                                                  \
    {                                                                                                        \
        return F##_alignment_of(numbers);                                                                    \
    }
INTERFACE(double, fftw)
INTERFACE(float, fftwf)
#define FUNCTIONS(T) { plan_##T, execute_##T, destroy_##T, alignment_##T }
static const interface interfaces[] = { FUNCTIONS(double), FUNCTIONS(float) }; /* [single] */

typedef struct library_plan {
    weft_fft_kept kept;
    void *plan;
    weft_fft_batch batch;
    int alignments[2];
    void *in, *out; /* of the first user; they serve to make the plan, which leaves them as they are */
} library_plan;

static pthread_mutex_t fftw_planner = PTHREAD_MUTEX_INITIALIZER;

static bool is_same(const weft_fft_kept *kept, const void *wanted)
{
    const library_plan *own = (const library_plan *)kept, *other = wanted;
    const weft_fft_batch *a = &own->batch, *b = &other->batch;
    return a->kind == b->kind && a->single == b->single && a->n == b->n && a->count == b->count && a->in_step == b->in_step &&
           a->out_step == b->out_step && a->in_apart == b->in_apart && a->out_apart == b->out_apart &&
           memcmp(own->alignments, other->alignments, sizeof(own->alignments)) == 0;
}

/* FFTW does not tell how much memory a plan takes: about that of the line, as twiddles and for Rader's or Bluestein's algorithm. */
static int64_t bytes_of(const weft_fft_batch *batch)
{
    enum { OBJECTS = 4096, LINES = 2 };
    return OBJECTS + LINES * 2 * batch->n * (int64_t)(batch->single ? sizeof(float) : sizeof(double));
}

static weft_fft_kept *make(const void *wanted)
{
    library_plan *own = malloc(sizeof(*own));
    if (own == NULL) {
        return NULL;
    }
    *own = *(const library_plan *)wanted;
    own->kept.bytes = bytes_of(&own->batch);
    pthread_mutex_lock(&fftw_planner);
    own->plan = interfaces[own->batch.single].plan(&own->batch, own->in, own->out);
    pthread_mutex_unlock(&fftw_planner);
    if (own->plan == NULL) {
        free(own);
        return NULL;
    }
    return &own->kept;
}

static void destroy(weft_fft_kept *kept)
{
    library_plan *own = (library_plan *)kept;
    pthread_mutex_lock(&fftw_planner);
    interfaces[own->batch.single].destroy(own->plan);
    pthread_mutex_unlock(&fftw_planner);
    free(own);
}

static const weft_fft_maker library_plans = { is_same, make, destroy };

bool weft_fft_by_library(const weft_fft_batch *batch, const void *in, void *out)
{
    const interface *library = &interfaces[batch->single];
    void *values = (void *)(uintptr_t)in; /* FFTW_PRESERVE_INPUT */
    const library_plan wanted = {
        .batch = *batch, .alignments = { library->alignment(values), library->alignment(out) }, .in = values, .out = out
    };
    weft_fft_kept *kept = weft_fft_obtain(&library_plans, &wanted);
    if (kept == NULL) {
        return false;
    }
    library->execute(batch, ((library_plan *)kept)->plan, values, out);
    weft_fft_release(kept);
    return true;
}

bool weft_fft_has_library(void)
{
    return true;
}
