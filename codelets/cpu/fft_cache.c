/* The cache of transforms' plans. It evicts plans that no task uses, the least recently used one first. */
#include "codelets/cpu/fft_cache.h"

#include <pthread.h>

#include "codelets/fft.h"

/* Limits of what is kept: bytes as makers count them, and plans, which a task compares with its own one after the other. */
enum { MOST_PLANS = 512 };
static const int64_t most_bytes = INT64_C(256) << 20;

static struct {
    pthread_mutex_t lock;
    weft_fft_kept *newest; /* by last use */
    int64_t bytes, count;  /* of all */
} fft_plans = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* With the lock: such a plan, for one more user, as the newest one. NULL: none is kept. */
static weft_fft_kept *find(const weft_fft_maker *maker, const void *wanted)
{
    for (weft_fft_kept **place = &fft_plans.newest; *place != NULL; place = &(*place)->older) {
        weft_fft_kept *plan = *place;
        if (plan->maker == maker && maker->same(plan, wanted)) {
            *place = plan->older;
            plan->older = fft_plans.newest;
            fft_plans.newest = plan;
            plan->users++;
            return plan;
        }
    }
    return NULL;
}

/* Removes the oldest plan that nobody uses, if all together are too many, or `all` are to go. NULL: nothing is removed. */
static weft_fft_kept *take_excess(bool all)
{
    weft_fft_kept **oldest = NULL, *taken = NULL;
    pthread_mutex_lock(&fft_plans.lock);
    const bool many = all || fft_plans.bytes > most_bytes || fft_plans.count > MOST_PLANS;
    for (weft_fft_kept **place = &fft_plans.newest; many && *place != NULL; place = &(*place)->older) {
        oldest = (*place)->users == 0 ? place : oldest;
    }
    if (oldest != NULL) {
        taken = *oldest;
        *oldest = taken->older;
        fft_plans.bytes -= taken->bytes;
        fft_plans.count--;
    }
    pthread_mutex_unlock(&fft_plans.lock);
    return taken;
}

/* The newest plan stays, however large it is: tasks of one transform take turns with it. */
static void destroy_excess(bool all)
{
    for (weft_fft_kept *plan = take_excess(all); plan != NULL; plan = take_excess(all)) {
        plan->maker->destroy(plan);
    }
}

weft_fft_kept *weft_fft_obtain(const weft_fft_maker *maker, const void *wanted)
{
    pthread_mutex_lock(&fft_plans.lock);
    weft_fft_kept *found = find(maker, wanted);
    pthread_mutex_unlock(&fft_plans.lock);
    weft_fft_kept *made = found == NULL ? maker->make(wanted) : NULL;
    if (made == NULL) {
        return found;
    }
    pthread_mutex_lock(&fft_plans.lock);
    found = find(maker, wanted); /* of a thread that was faster */
    if (found == NULL) {
        made->maker = maker;
        made->users = 1;
        made->older = fft_plans.newest;
        fft_plans.newest = made;
        fft_plans.bytes += made->bytes;
        fft_plans.count++;
    }
    pthread_mutex_unlock(&fft_plans.lock);
    if (found != NULL) {
        maker->destroy(made);
        return found;
    }
    destroy_excess(false);
    return made;
}

void weft_fft_release(weft_fft_kept *plan)
{
    pthread_mutex_lock(&fft_plans.lock);
    plan->users--;
    pthread_mutex_unlock(&fft_plans.lock);
}

void weft_fft_forget_plans(void)
{
    destroy_excess(true);
}
