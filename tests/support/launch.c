#define _DEFAULT_SOURCE /* getloadavg() */
#include "launch.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "mpirun.h"

enum { HANGS_AFTER_LOOKS = 3000 }; /* one every 50 ms */

char launch_output[1 << 17];

static char path[] = "/tmp/weft-launch-XXXXXX";

const char *launch_short_timeout(void)
{
    static char setting[32];
    double load = 0, cores = (double)sysconf(_SC_NPROCESSORS_ONLN);
    double beside = getloadavg(&load, 1) == 1 && load > cores ? load / cores - 1 : 0;
    snprintf(setting, sizeof(setting), "WEFT_TIMEOUT_S=%.0f", 2 + (beside < 20 ? beside : 20));
    return setting;
}

int launch_setup(void **state)
{
    (void)state;
    int file = mkstemp(path);
    return file < 0 || close(file) != 0;
}

int launch_teardown(void **state)
{
    (void)state;
    return remove(path);
}

static void read_output(void)
{
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    size_t length = fread(launch_output, 1, sizeof(launch_output) - 1, file);
    launch_output[length] = '\0';
    fclose(file);
}

/* In the child: becomes mpirun, with a TMPDIR of its own: two launchers that start together share nothing. */
static void become_mpirun(const launch *l, const char *folder)
{
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM); /* mpirun then ends its processes */
    int file = open(path, O_WRONLY | O_APPEND);
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, 0);
    dup2(file, 1);
    dup2(file, 2);
    setenv("TMPDIR", folder, 1);
    for (int i = 0; l->settings[i] != NULL; i++) {
        char name[64] = "";
        size_t length = strcspn(l->settings[i], "=");
        memcpy(name, l->settings[i], length < sizeof(name) ? length : sizeof(name) - 1);
        setenv(name, l->settings[i] + length + 1, 1);
    }
    char count[16];
    snprintf(count, sizeof(count), "%d", l->processes);
    const char *words[MPIRUN_MAX_WORDS + LAUNCH_MAX_ARGUMENTS + 2] = { NULL };
    int used = mpirun_words(words, count, l->recovers);
    words[used++] = l->program;
    for (int i = 0; l->arguments[i] != NULL; i++) {
        words[used++] = l->arguments[i];
    }
    execvp(words[0], (char **)(uintptr_t)words);
    _exit(127);
}

/* Returns mpirun's status, as waitpid() does. */
static int wait_for(const launch *l, pid_t mpirun)
{
    int status = 0;
    for (int looks = 0; waitpid(mpirun, &status, WNOHANG) == 0; looks++) {
        if (looks > HANGS_AFTER_LOOKS) {
            kill(mpirun, SIGTERM);
            waitpid(mpirun, &status, 0);
            read_output();
            fail_msg("%s %s hangs:\n%s", l->program, l->arguments[0], launch_output);
        }
        if (l->look != NULL) {
            read_output();
            l->look();
        }
        nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
    }
    return status;
}

int launch_run(const launch *l)
{
    char folder[128];
    assert_int_equal(truncate(path, 0), 0);
    assert_true(make_temporary_folder(folder, sizeof(folder)));
    pid_t mpirun = fork();
    assert_true(mpirun >= 0);
    if (mpirun == 0) {
        become_mpirun(l, folder);
    }
    int status = wait_for(l, mpirun);
    read_output();
    remove_tree(folder);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool launch_line(int process, const char *begin, char *line, size_t size)
{
    char start[64];
    snprintf(start, sizeof(start), "process %d %s", process, begin);
    const char *found = strstr(launch_output, start);
    if (found == NULL) {
        return false;
    }
    snprintf(line, size, "%.*s", (int)strcspn(found, "\n"), found);
    return true;
}
