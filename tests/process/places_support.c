#include "places_support.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- folders of a test --------------------------------------------------------------------------------- */

char top[32], private[128], home[128], elsewhere[128], *starter;

const char *in(const char *folder, const char *name)
{
    enum { PATHS = 8 };
    static char paths[PATHS][256];
    static int next;
    char *path = paths[next++ % PATHS];
    assert_true(strlen(folder) + strlen(name) + 2 < sizeof(paths[0]));
    strcpy(path, folder);
    strcat(path, "/");
    return strcat(path, name);
}

int count_entries(const char *name)
{
    DIR *directory = opendir(name);
    assert_non_null(directory);
    int count = 0;
    while (readdir(directory) != NULL) {
        count++;
    }
    closedir(directory);
    return count - 2;
}

void write_text(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

void assert_text(const char *path, const char *text)
{
    char found[64] = "";
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    found[fread(found, 1, sizeof(found) - 1, file)] = '\0';
    fclose(file);
    assert_string_equal(found, text);
}

void make_folder(const char *path)
{
    assert_int_equal(mkdir(path, 0755), 0);
}

int set_up(void **state)
{
    (void)state;
    strcpy(top, "/tmp/weft-places-XXXXXX");
    assert_non_null(mkdtemp(top));
    assert_int_equal(chmod(top, 0755), 0);
    snprintf(private, sizeof(private), "%s/private", top);
    snprintf(home, sizeof(home), "%s/home", top);
    snprintf(elsewhere, sizeof(elsewhere), "%s/elsewhere", top);
    make_folder(private);
    assert_int_equal(chmod(private, 0777), 0); /* another user runs the program in some tests */
    make_folder(home);
    write_text(elsewhere, "untouched\n");
    return 0;
}

int tear_down(void **state)
{
    (void)state;
    assert_text(elsewhere, "untouched\n");
    assert_int_not_equal(access(in(top, "not-there"), F_OK), 0);
    assert_int_equal(count_entries(private), 0);
    remove_tree(top);
    return 0;
}

/* ---- running ------------------------------------------------------------------------------------------- */

const child *start_with(const char *first, const char *second)
{
    static child c;
    static char tmpdir[160];
    const char *const arguments[] = { starter, NULL };
    const char *const settings[] = { tmpdir,
                                     "WEFT_CALIBRATE=auto",
                                     "STARPU_HOSTNAME=a-host",
                                     "XDG_CACHE_HOME",
                                     "STARPU_HOME",
                                     "STARPU_PERF_MODEL_DIR",
                                     first,
                                     second,
                                     NULL };
    snprintf(tmpdir, sizeof(tmpdir), "TMPDIR=%s", private);
    c = (child){ .arguments = arguments, .settings = settings, .seconds = LONG_S };
    child_run(&c);
    assert_ends(&c, 0);
    assert_says(&c, "process 0 computes 12", NULL, NULL);
    return &c;
}

const child *start_at_home(void)
{
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s", home);
    return start_with(setting, NULL);
}

const child *start_at_home_of_another(void)
{
    char setting[160];
    snprintf(setting, sizeof(setting), "HOME=%s", home);
    return start_with(setting, geteuid() == 0 ? "WEFT_TEST_USER=65534" : NULL);
}

void assert_says_not(const child *c, const char *text)
{
    if (child_says(c, text, NULL, NULL)) {
        fail_msg("\"%s\" in:\n%s", text, c->output);
    }
}

bool is_kept(const char *models)
{
    char path[256], word[32] = "";
    snprintf(path, sizeof(path), "%s/weft/a-host", models);
    struct stat found;
    if (lstat(path, &found) != 0 || !S_ISREG(found.st_mode)) {
        return false;
    }
    FILE *file = fopen(path, "r");
    bool kept = file != NULL && fscanf(file, "%31s", word) == 1 && strcmp(word, "weft-machine") == 0;
    if (file != NULL) {
        fclose(file);
    }
    return kept;
}
