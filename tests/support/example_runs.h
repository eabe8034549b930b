/* Runs of example programs, in a folder of the test's own. */
#ifndef WEFT_TESTS_EXAMPLE_RUNS_H
#define WEFT_TESTS_EXAMPLE_RUNS_H

#include <stddef.h>

/* Runs a program by the shell, under mpirun if processes > 0, its output in the folder's files "out" and "err". Returns the
 * exit code. */
int example_run(int processes, const char *program, const char *arguments);
/* A whole file, at most size - 1 bytes. */
char *example_file(const char *path, char *buffer, size_t size);
/* The folder's file "out" or "err". */
char *example_output(const char *stream);
/* The last line of "out", with its newline. */
char *example_last_line(void);
/* The path of a file in the folder; valid until the next call but one. */
const char *example_path(const char *name);
/* Reads n losses, one a line, from the folder's file. Fails the test if there are fewer, or one is not finite. */
void example_curve(const char *name, int n, double losses[]);

/* One process exits with `code`, and its message has `part`; or the test fails. */
void example_refused(const char *program, const char *arguments, int code, const char *part);
/* The number after `key` in the last line of "out"; and n numbers of the list after it. Fail the test if there is none. */
double example_number(const char *key);
void example_list(const char *key, int n, double values[]);
/* The bytes of a tensor of a safetensors file. Fails the test unless there are so many. */
void example_tensor(const char *path, const char *name, size_t bytes, void *values);

/* For cmocka_run_group_tests(). */
int example_folder_make(void **state);
int example_folder_remove(void **state);

#endif
