/* The text that every program that is printed as C begins with: functions on arrays, and on tensors. */
#ifndef WEFT_TESTS_PRINT_PRELUDE_H
#define WEFT_TESTS_PRINT_PRELUDE_H

extern const char print_prelude_arrays[], print_prelude_tensors[];

#endif
