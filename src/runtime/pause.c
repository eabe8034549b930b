/* weft_pause() and weft_resume(). */
#include <weft/runtime.h>

#include "runtime/deferral.h"
#include "runtime/runtime.h"
#include "sched/sched.h"

weft_status weft_pause(void)
{
    weft_status status = weft_require_init("weft_pause");
    weft_deferral_note("weft_pause");
    if (status == WEFT_OK && !weft_runtime.paused) {
        weft_runtime.paused = true;
        weft_sched_pause();
    }
    return status;
}

void weft_resume_workers(void)
{
    weft_runtime.paused = false;
    weft_sched_resume();
}

weft_status weft_resume(void)
{
    weft_status status = weft_require_init("weft_resume");
    weft_deferral_note("weft_resume");
    if (status == WEFT_OK) {
        weft_end_pause();
    }
    return status;
}
