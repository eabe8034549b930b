/* SIGUSR1 while the transformer trains: all processes write one checkpoint of one step, the training goes on, and a later run
 * continues from it with the losses of a run that nothing interrupted.
 *
 * Arguments: the program transformer_lm, a text to learn. */
#include <fcntl.h>
#include <math.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "example_runs.h"

enum { MAX_STEPS = 100000, MAX_PROCESSES = 4, LOOKS = 2000, MORE = 5 };

static const char *program, *text;
static double whole[MAX_STEPS], rest[MORE];

static void arguments_of(const char *more, char *all, size_t size)
{
    snprintf(all, size,
             "--layers 1 --width 32 --heads 2 --kv-heads 2 --context 16 --batch 4 --mesh dp=2 --steps %d --validate 0 --sample 0 "
             "--text '%s' %s",
             MAX_STEPS, text, more);
}

/* Waits a while longer. */
static void look_later(int *looks)
{
    if (++*looks > LOOKS) {
        fail_msg("nothing comes:\n%s\n%s", example_output("out"), example_output("err"));
    }
    nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
}

/* The program in the background: the shell that becomes it, or mpirun. */
static pid_t begin(int processes, const char *more)
{
    char all[2048], command[4096];
    arguments_of(more, all, sizeof(all));
    snprintf(command, sizeof(command), "exec %s '%s' %s", processes > 0 ? "mpirun --oversubscribe --bind-to none -n 2" : "",
             program, all);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        dup2(open(example_path("out"), O_CREAT | O_TRUNC | O_WRONLY, 0666), STDOUT_FILENO);
        dup2(open(example_path("err"), O_CREAT | O_TRUNC | O_WRONLY, 0666), STDERR_FILENO);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(127);
    }
    return child;
}

/* The children of a process, at most MAX_PROCESSES. */
static int children_of(pid_t process, pid_t children[])
{
    char path[64];
    int count = 0, child = 0;
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", (int)process, (int)process);
    FILE *file = fopen(path, "r");
    while (file != NULL && count < MAX_PROCESSES && fscanf(file, "%d", &child) == 1) {
        children[count++] = child;
    }
    if (file != NULL) {
        fclose(file);
    }
    return count;
}

static bool catches(pid_t process, int number)
{
    char path[64], line[256];
    unsigned long long caught = 0;
    snprintf(path, sizeof(path), "/proc/%d/status", (int)process);
    FILE *file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof(line), file) != NULL && sscanf(line, "SigCgt: %llx", &caught) != 1) {
    }
    if (file != NULL) {
        fclose(file);
    }
    return (caught >> (number - 1) & 1) != 0;
}

/* Waits until the training's processes, `pids`, have their handlers. */
static void wait_for_handlers(pid_t started, int processes, pid_t pids[])
{
    bool ready = false;
    for (int looks = 0; !ready; look_later(&looks)) {
        pids[0] = started;
        ready = processes == 0 || children_of(started, pids) == processes;
        for (int i = 0; ready && i < (processes == 0 ? 1 : processes); i++) {
            ready = catches(pids[i], SIGUSR1);
        }
    }
}

/* The step of the checkpoint that has been asked for, once its file is there. */
static int wait_for_checkpoint(const char *file)
{
    int step = 0;
    for (int looks = 0; access(file, R_OK) != 0; look_later(&looks)) {
    }
    const char *line = strstr(example_output("out"), "  step ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "  step %d   checkpoint, asked for by SIGUSR1", &step), 1);
    return step;
}

/* Not ended by the signal, nor by the checkpoint. */
static void end(pid_t started)
{
    int status = 0;
    assert_int_equal(waitpid(started, &status, WNOHANG), 0);
    kill(started, SIGTERM);
    assert_int_equal(waitpid(started, &status, 0), started);
}

static void train(const char *more, int steps, double losses[])
{
    char all[2048];
    arguments_of(more, all, sizeof(all));
    assert_int_equal(example_run(0, program, all), 0);
    example_curve("curve", steps, losses);
}

/* `all_get_it`: the launcher passes the signal on; else one process gets it alone. */
static void save_and_continue(int processes, bool all_get_it)
{
    char more[1024], file[320];
    pid_t pids[MAX_PROCESSES];
    snprintf(file, sizeof(file), "%s", example_path("asked"));
    remove(file);
    snprintf(more, sizeof(more), "--save %s", file);
    pid_t started = begin(processes, more);
    wait_for_handlers(started, processes, pids);
    kill(all_get_it ? started : pids[processes - 1], SIGUSR1);
    int step = wait_for_checkpoint(file);
    end(started);
    snprintf(more, sizeof(more), "--curve %s --stop %d", example_path("curve"), step + MORE);
    train(more, step + MORE, whole);
    snprintf(more, sizeof(more), "--curve %s --stop %d --load %s", example_path("curve"), step + MORE, file);
    train(more, MORE, rest);
    assert_memory_equal(rest, whole + step, sizeof(rest));
}

static void one_process(void **state)
{
    (void)state;
    save_and_continue(0, true);
}

#ifdef WEFT_HAVE_MPI
static void two_processes(void **state)
{
    (void)state;
    save_and_continue(2, true);
}

static void one_of_two_processes(void **state)
{
    (void)state;
    save_and_continue(2, false);
}
#endif

int main(int argc, char *argv[])
{
    if (argc != 3) {
        fprintf(stderr, "usage: %s TRANSFORMER_LM TEXT\n", argv[0]);
        return 2;
    }
    program = argv[1];
    text = argv[2];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_process),
#ifdef WEFT_HAVE_MPI
        cmocka_unit_test(two_processes),
        cmocka_unit_test(one_of_two_processes),
#endif
    };
    return cmocka_run_group_tests(tests, example_folder_make, example_folder_remove);
}
