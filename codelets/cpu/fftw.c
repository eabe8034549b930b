/* Fourier transforms by FFTW (M. Frigo and S. G. Johnson, "The design and implementation of FFTW3", Proceedings of the IEEE 93 (2005)) or a
 * library with its interface. Plans are estimated, not measured: they depend on sizes, distances and alignment alone, so that replicas
 * have equal bits. One plan at a time is made or destroyed, as FFTW asks; any number of threads use one. */
#include "codelets/cpu/fft_library.h"

#include <fftw3.h>
#include <pthread.h>
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

/* Plans that are kept, and those in use. The one that has not been used for the longest time makes room. */
enum { KEPT = 64 };
typedef struct kept_plan {
    void *plan;
    weft_fft_batch batch;
    int alignments[2];
    int users;
    uint64_t used;
} kept_plan;

static struct {
    pthread_mutex_t lock;
    uint64_t uses;
    kept_plan plans[KEPT];
} fft_plans = { .lock = PTHREAD_MUTEX_INITIALIZER };

static bool same(const kept_plan *own, const kept_plan *wanted)
{
    const weft_fft_batch *a = &own->batch, *b = &wanted->batch;
    return own->plan != NULL && a->kind == b->kind && a->single == b->single && a->n == b->n && a->count == b->count &&
           a->in_step == b->in_step && a->out_step == b->out_step && a->in_apart == b->in_apart && a->out_apart == b->out_apart &&
           memcmp(own->alignments, wanted->alignments, sizeof(own->alignments)) == 0;
}

/* With the lock: the place of such a plan, or of the one to give up; NULL: all are in use. */
static kept_plan *find(const kept_plan *wanted)
{
    kept_plan *place = NULL;
    for (int i = 0; i < KEPT; i++) {
        kept_plan *own = &fft_plans.plans[i];
        if (same(own, wanted)) {
            return own;
        }
        if (own->users == 0 && (place == NULL || own->used < place->used)) {
            place = own;
        }
    }
    return place;
}

/* For one more user, or NULL. */
static kept_plan *obtain(const kept_plan *wanted, void *in, void *out)
{
    const interface *library = &interfaces[wanted->batch.single];
    pthread_mutex_lock(&fft_plans.lock);
    kept_plan *place = find(wanted);
    if (place != NULL && !same(place, wanted)) {
        if (place->plan != NULL) {
            interfaces[place->batch.single].destroy(place->plan);
        }
        *place = *wanted;
        place->plan = library->plan(&wanted->batch, in, out); /* an estimated plan leaves both as they are */
    }
    place = place == NULL || place->plan == NULL ? NULL : place;
    if (place != NULL) {
        place->users++;
        place->used = ++fft_plans.uses;
    }
    pthread_mutex_unlock(&fft_plans.lock);
    return place;
}

bool weft_fft_by_library(const weft_fft_batch *batch, const void *in, void *out)
{
    const interface *library = &interfaces[batch->single];
    void *values = (void *)(uintptr_t)in; /* FFTW_PRESERVE_INPUT */
    const kept_plan wanted = { .batch = *batch, .alignments = { library->alignment(values), library->alignment(out) } };
    kept_plan *kept = obtain(&wanted, values, out);
    if (kept == NULL) {
        return false;
    }
    library->execute(batch, kept->plan, values, out);
    pthread_mutex_lock(&fft_plans.lock);
    kept->users--;
    pthread_mutex_unlock(&fft_plans.lock);
    return true;
}

bool weft_fft_has_library(void)
{
    return true;
}
