/* Fourier transforms of many lines, in both precisions. */
#include <string.h>

#include "codelets/cpu/clones.h"
#include "codelets/cpu/fft_plan.h"

#if defined(__GNUC__)
#define UNROLL _Pragma("GCC unroll 16")
#else
#define UNROLL
#endif

#define T double
#define OF(name) name##_f64
#define TABLE f64
#include "codelets/cpu/fft_passes.inc"

#define T float
#define OF(name) name##_f32
#define TABLE f32
#include "codelets/cpu/fft_passes.inc"
