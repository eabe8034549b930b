/* A process that saves is killed at random moments: what its path names is whole each time, and no older than the
 * last save that it has reported. Argument: the program that saves. */
#include "checkpoint_support.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* A process starts slowly under a sanitizer. */
#ifdef __SANITIZE_ADDRESS__
enum { KILLS = 15 };
#else
enum { KILLS = 50 };
#endif
enum { TENSORS = 6 };

static const char *saver;
static char path[300]; /* of the file, or of an index of several */

static int start(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s", checkpoint_path());
    return WORLD(3);
}

/* In a folder of its own, whose files have several names. */
static int start_index(void **state)
{
    (void)state;
    snprintf(path, sizeof(path), "%s.d", checkpoint_path());
    assert_int_equal(mkdir(path, 0777), 0);
    snprintf(path, sizeof(path), "%s.d/model.safetensors.index.json", checkpoint_path());
    return WORLD(3);
}

static int stop(void **state)
{
    (void)state;
    checkpoint_remove();
    weft_clear_error();
    return world_stop(NULL);
}

typedef struct victim {
    pid_t process;
    FILE *output;
} victim;

/* Killed saves leave no more than one save's files. */
static int stop_index(void **state)
{
    DIR *folder;
    int count = 0;
    *strrchr(path, '/') = '\0';
    folder = opendir(path);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char file[600];
        snprintf(file, sizeof(file), "%s/%s", path, entry->d_name);
        count += entry->d_name[0] != '.' && unlink(file) == 0;
    }
    closedir(folder);
    assert_int_equal(rmdir(path), 0);
    assert_true(count <= 3 * TENSORS + 2); /* named, not named, temporary; the index and its temporary */
    return stop(state);
}

static victim start_saver(bool in_background)
{
    int ends[2];
    victim v;
    assert_int_equal(pipe(ends), 0);
    v.process = fork();
    assert_true(v.process >= 0);
    if (v.process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        dup2(ends[1], 1);
        close(ends[0]);
        close(ends[1]);
        setenv("WEFT_WORKERS", "1", 1);
        execl(saver, saver, path, in_background ? "background" : (char *)NULL, (char *)NULL);
        _exit(127);
    }
    close(ends[1]);
    v.output = fdopen(ends[0], "r");
    return v;
}

/* Kills it; returns the last number that it has printed. */
static int kill_saver(victim v, int last)
{
    char line[32];
    kill(v.process, SIGKILL);
    waitpid(v.process, NULL, 0);
    while (fgets(line, sizeof(line), v.output) != NULL) {
        last = strchr(line, '\n') != NULL ? atoi(line) : last;
    }
    fclose(v.output);
    return last;
}

/* Loads the file; returns the generation that all of it has. */
static int loaded_generation(void)
{
    static const char *const names[TENSORS] = { "a", "b", "c", "d", "e", "f" };
    weft_tensor *tensors[TENSORS];
    weft_checkpoint_file *file = weft_checkpoint_open(path);
    assert_no_error();
    int generation = atoi(weft_checkpoint_metadata(file, "generation"));
    weft_scope_begin();
    for (int i = 0; i < TENSORS; i++) {
        weft_checkpoint_entry entry;
        assert_int_equal(weft_checkpoint_tensor(file, i, &entry), WEFT_OK);
        weft_mesh *mesh = weft_mesh_create(1, (const int64_t[]){ 3 }, NULL);
        weft_placement rows = weft_shard(0);
        tensors[i] = weft_zeros(entry.dtype, entry.ndim, entry.shape, mesh, &rows);
    }
    assert_int_equal(weft_checkpoint_load(path, TENSORS, names, tensors), WEFT_OK);
    for (int i = 0; i < TENSORS; i++) {
        double lowest, highest;
        assert_int_equal(weft_tensor_item(weft_min(tensors[i], WEFT_ALL_DIMS, false), &lowest), WEFT_OK);
        assert_int_equal(weft_tensor_item(weft_max(tensors[i], WEFT_ALL_DIMS, false), &highest), WEFT_OK);
        assert_true(lowest == generation && highest == generation);
    }
    weft_scope_end();
    weft_checkpoint_close(file);
    return generation;
}

/* Each saver goes on where its path has a file of the one before, whose leavings it writes over. */
static void kill_at_random_moments(int kills, bool in_background)
{
    prng random = prng_start(20261122);
    int newer = 0;
    for (int round = 0; round < kills; round++) {
        char line[32];
        victim v = start_saver(in_background);
        assert_non_null(fgets(line, sizeof(line), v.output)); /* it has saved once */
        nanosleep(&(struct timespec){ 0, (long)prng_below(&random, 12000000) }, NULL);
        int reported = kill_saver(v, atoi(line));
        int generation = loaded_generation();
        if (generation < reported) {
            fail_msg("round %d: generation %d is there, %d was reported as saved", round, generation, reported);
        }
        newer += generation > reported;
    }
    printf("# %d kills, %d between the commit and its report\n", kills, newer);
}

static void test_killed_at_random_moments(void **state)
{
    (void)state;
    kill_at_random_moments(KILLS, false);
}

static void test_killed_while_training_goes_on(void **state)
{
    (void)state;
    kill_at_random_moments(2 * KILLS, true);
}

static void test_several_files(void **state)
{
    (void)state;
    kill_at_random_moments(KILLS, false);
}

int main(int argc, char *argv[])
{
    assert_true(argc > 1);
    saver = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_killed_at_random_moments, start, stop),
        cmocka_unit_test_setup_teardown(test_killed_while_training_goes_on, start, stop),
        cmocka_unit_test_setup_teardown(test_several_files, start_index, stop_index),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
