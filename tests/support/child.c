#include "child.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "folder.h"

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* In the child: becomes the program. A process group of its own, so that all of it can be ended. */
static void become(const child *c, int output)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* a test that is ended leaves nothing behind */
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(output, 1);
    dup2(output, 2);
    setenv("TMPDIR", c->folder, 1);
    for (int i = 0; c->settings != NULL && c->settings[i] != NULL; i++) {
        char name[64];
        size_t length = strcspn(c->settings[i], "=");
        snprintf(name, sizeof(name), "%.*s", (int)length, c->settings[i]);
        if (c->settings[i][length] == '\0') {
            unsetenv(name);
        } else {
            setenv(name, c->settings[i] + length + 1, 1);
        }
    }
    execvp(c->arguments[0], (char *const *)(uintptr_t)c->arguments);
    _exit(127);
}

/* A program that is killed may leave processes that hold the file open: it is a file and no pipe. */
static void read_output(child *c)
{
    ssize_t length = pread(c->file, c->output, sizeof(c->output) - 1, 0);
    c->output[length > 0 ? length : 0] = '\0';
    close(c->file);
}

void child_start(child *c)
{
    char path[] = "/tmp/weft-child-XXXXXX";
    c->file = mkstemp(path);
    assert_true(c->file >= 0);
    unlink(path);
    fcntl(c->file, F_SETFL, O_APPEND);
    assert_true(make_temporary_folder(c->folder, sizeof(c->folder)));
    c->begin_s = now_s();
    c->hangs = false;
    c->process = fork();
    assert_true(c->process >= 0);
    if (c->process == 0) {
        become(c, c->file);
    }
}

bool child_has_ended(child *c)
{
    int status = 0;
    if (waitpid(c->process, &status, WNOHANG) == 0) {
        if (now_s() - c->begin_s <= c->seconds) {
            return false;
        }
        c->hangs = true;
        kill(c->process, SIGTERM); /* mpirun ends its processes then */
        nanosleep(&(struct timespec){ 1, 0 }, NULL);
        kill(-c->process, SIGKILL);
        waitpid(c->process, &status, 0);
    }
    c->took_s = now_s() - c->begin_s;
    c->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_output(c);
    remove_tree(c->folder);
    return true;
}

void child_run(child *c)
{
    child_start(c);
    while (!child_has_ended(c)) {
        nanosleep(&(struct timespec){ 0, 10000000 }, NULL);
    }
}

bool child_says(const child *c, const char *first, const char *second, const char *third)
{
    const char *const needles[] = { first, second, third };
    for (const char *line = c->output; *line != '\0';) {
        size_t length = strcspn(line, "\n");
        char text[2048];
        snprintf(text, sizeof(text), "%.*s", (int)length, line);
        bool all = true;
        for (int i = 0; i < 3 && all && needles[i] != NULL; i++) {
            all = strstr(text, needles[i]) != NULL;
        }
        if (all) {
            return true;
        }
        line += length + (line[length] == '\n');
    }
    return false;
}

void assert_says(const child *c, const char *first, const char *second, const char *third)
{
    if (!child_says(c, first, second, third)) {
        fail_msg("no line with \"%s\", \"%s\", \"%s\" in:\n%s", first, second != NULL ? second : "",
                 third != NULL ? third : "", c->output);
    }
}

void assert_ends(const child *c, int code)
{
    if (c->hangs || c->code != code) {
        fail_msg("%s with status %d, expected %d, after %.1f s:\n%s", c->hangs ? "hangs, ended" : "ends",
                 c->code, code, c->took_s, c->output);
    }
}
