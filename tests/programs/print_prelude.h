/* The first text of every program printed as C: functions on arrays, and on tensors. */
#ifndef WEFT_TESTS_PRINT_PRELUDE_H
#define WEFT_TESTS_PRINT_PRELUDE_H

extern const char print_prelude_arrays[], print_prelude_tensors[];

#endif
