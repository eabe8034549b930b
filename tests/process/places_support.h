/* Shared by the tests of places for files: folders of a test, and the program starter, run as a child. */
#ifndef WEFT_TESTS_PLACES_SUPPORT_H
#define WEFT_TESTS_PLACES_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "child.h"
#include "folder.h"

/* Seconds after which a run hangs. */
enum { LONG_S = 60 };

/* The program, which main() sets. */
extern char *starter;

/* The folder of a test, all lies in it; TMPDIR: StarPU's own folder is made there; HOME; a file that must
 * stay as it is. */
extern char top[32], private[128], home[128], elsewhere[128];
int set_up(void **state);
int tear_down(void **state);
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

/* folder/name; static storage, of the last few calls. */
const char *in(const char *folder, const char *name);
void make_folder(const char *path);
int count_entries(const char *name);
void write_text(const char *path, const char *text);
void assert_text(const char *path, const char *text);

/* Runs the program with these settings (NULL: none), a TMPDIR and a host's name of its own, measuring. It
 * must start and compute. */
const child *start_with(const char *first, const char *second);
const child *start_at_home(void);
/* As a user whom permissions hold, for the one of the tests may be root. */
const child *start_at_home_of_another(void);
void assert_says_not(const child *c, const char *text);
/* Whether the figures of a-host have been kept, whole, in weft/ of this folder. */
bool is_kept(const char *models);

#endif
