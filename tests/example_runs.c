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

static char folder[] = "/tmp/weft-examples-XXXXXX";

int example_run(int processes, const char *program, const char *arguments)
{
    char launcher[128] = "", command[4096];
    if (processes > 0) {
        snprintf(launcher, sizeof(launcher), "mpirun --oversubscribe --bind-to none -n %d", processes);
    }
    snprintf(command, sizeof(command), "%s '%s' %s >%s/out 2>%s/err </dev/null", launcher, program, arguments,
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
