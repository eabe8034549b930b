#include "example_runs.h"

#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "mpirun.h"

static char folder[] = "/tmp/weft-examples-XXXXXX";

int example_run(int processes, const char *program, const char *arguments)
{
    char launcher[256], command[4096];
    mpirun_text(launcher, sizeof(launcher), processes);
    snprintf(command, sizeof(command), "%s'%s' %s >%s/out 2>%s/err </dev/null", launcher, program, arguments,
             folder, folder);
    int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

char *example_file(const char *path, char *buffer, size_t size)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(buffer, 1, size - 1, file);
    assert_true(length < size - 1);
    buffer[length] = '\0';
    fclose(file);
    return buffer;
}

char *example_output(const char *stream)
{
    static char buffer[1 << 16];
    return example_file(example_path(stream), buffer, sizeof(buffer));
}

char *example_last_line(void)
{
    char *line = example_output("out");
    for (char *end = strchr(line, '\n'); end != NULL && end[1] != '\0'; end = strchr(line, '\n')) {
        line = end + 1;
    }
    return line;
}

const char *example_path(const char *name)
{
    static char paths[2][320];
    static int turn;
    turn = 1 - turn;
    snprintf(paths[turn], sizeof(paths[turn]), "%s/%s", folder, name);
    return paths[turn];
}

void example_curve(const char *name, int n, double losses[])
{
    FILE *file = fopen(example_path(name), "r");
    assert_non_null(file);
    for (int i = 0; i < n; i++) {
        assert_int_equal(fscanf(file, "%lf", &losses[i]), 1);
        assert_true(isfinite(losses[i]));
    }
    fclose(file);
}

void example_refused(const char *program, const char *arguments, int code, const char *part)
{
    int given = example_run(0, program, arguments);
    if (given != code || strstr(example_output("err"), part) == NULL) {
        fail_msg("%s %s gave %d: %s", program, arguments, given, example_output("err"));
    }
}

/* Behind `key`. */
static char *value_of(char *text, const char *key)
{
    char *at = strstr(text, key);
    if (at == NULL) {
        fail_msg("no %s in %s", key, text);
    }
    return at + strlen(key);
}

double example_number(const char *key)
{
    return strtod(value_of(example_last_line(), key), NULL);
}

void example_list(const char *key, int n, double values[])
{
    char *list = strchr(value_of(example_last_line(), key), '[');
    assert_non_null(list);
    for (int i = 0; i < n; i++) {
        char *end = list;
        values[i] = strtod(list + 1, &end);
        assert_true(end > list + 1);
        list = end;
    }
    assert_int_equal(*list, ']');
}

void example_tensor(const char *path, const char *name, size_t bytes, void *values)
{
    static char header[1 << 16], key[80];
    uint64_t length = 0;
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    assert_int_equal(fread(&length, sizeof(length), 1, file), 1);
    assert_true(length < sizeof(header));
    assert_int_equal(fread(header, 1, length, file), length);
    header[length] = '\0';
    snprintf(key, sizeof(key), "\"%s\"", name);
    char *offsets = strchr(value_of(value_of(header, key), "\"data_offsets\""), '[');
    long begin = strtol(offsets + 1, &offsets, 10), end = strtol(offsets + 1, NULL, 10);
    assert_int_equal(end - begin, bytes);
    assert_int_equal(fseek(file, (long)(sizeof(length) + length) + begin, SEEK_SET), 0);
    assert_int_equal(fread(values, 1, bytes, file), bytes);
    fclose(file);
}

int example_folder_make(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

int example_folder_remove(void **state)
{
    (void)state;
    DIR *list = opendir(folder);
    for (struct dirent *entry = NULL; list != NULL && (entry = readdir(list)) != NULL;) {
        remove(example_path(entry->d_name)); /* but for "." and ".." */
    }
    if (list != NULL) {
        closedir(list);
    }
    return rmdir(folder);
}
