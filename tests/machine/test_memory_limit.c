/* Limits of memory by control groups, from fake files: versions 1 and 2, groups above, containers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "folder.h"
#include "runtime/memory_limit.h"

static char root[64];

static int make_root(void **state)
{
    (void)state;
    strcpy(root, "/tmp/weft-groups-XXXXXX");
    return mkdtemp(root) == NULL;
}

static int remove_root(void **state)
{
    (void)state;
    remove_tree(root);
    return 0;
}

/* A file below the root, with its folders. */
static void write_file(const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof(path), "%s/%s", root, name);
    for (char *slash = strchr(path + strlen(root) + 1, '/'); slash != NULL; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        mkdir(path, 0777);
        *slash = '/';
    }
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static int64_t limit(void)
{
    return weft_memory_limit(root);
}

static void nothing_limits(void **state)
{
    (void)state;
    assert_int_equal(limit(), INT64_MAX);
    write_file("proc/self/cgroup", "0::/\n");
    assert_int_equal(limit(), INT64_MAX);
    write_file("proc/self/cgroup", "");
    assert_int_equal(limit(), INT64_MAX);
    write_file("proc/self/cgroup", "nonsense\n1:memory\n::\n0:\n");
    assert_int_equal(limit(), INT64_MAX);
}

static void version_2(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7/step_0/user/task_1\n");
    write_file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_1/memory.max", "max\n");
    assert_int_equal(limit(), INT64_MAX);
    write_file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "8589934592\n"); /* a group above */
    assert_int_equal(limit(), 8589934592);
    write_file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/memory.max", "4294967296\n");
    assert_int_equal(limit(), 4294967296);
    write_file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_8/memory.max", "1\n"); /* another job */
    assert_int_equal(limit(), 4294967296);
    write_file("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/step_0/user/task_1/memory.max", "nonsense\n");
    assert_int_equal(limit(), 4294967296);
}

/* The path is the host's, and the container sees its own group as the topmost one. */
static void version_2_in_a_container(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/docker/0123abc\n");
    write_file("sys/fs/cgroup/memory.max", "1073741824\n");
    assert_int_equal(limit(), 1073741824);
    write_file("proc/self/cgroup", "0::/\n");
    assert_int_equal(limit(), 1073741824);
}

static void version_1(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "12:cpuset:/slurm/uid_1/job_7\n11:cpu,memory:/slurm/uid_1/job_7/step_0\n0::/init.scope\n");
    write_file("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n"); /* none */
    assert_int_equal(limit(), INT64_MAX);
    write_file("sys/fs/cgroup/memory/slurm/uid_1/job_7/memory.limit_in_bytes", "2147483648\n");
    assert_int_equal(limit(), 2147483648);
    write_file("sys/fs/cgroup/unified/init.scope/memory.max", "1048576\n"); /* both versions */
    assert_int_equal(limit(), 1048576);
}

static void other_controllers_say_nothing(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "3:memoryish,cpu:/job\n4:name=memory:/job\n");
    write_file("sys/fs/cgroup/memory/job/memory.limit_in_bytes", "4096\n");
    assert_int_equal(limit(), INT64_MAX);
    write_file("proc/self/cgroup", "3:memoryish,memory:/job\n");
    assert_int_equal(limit(), 4096);
}

static void strange_numbers(void **state)
{
    (void)state;
    write_file("proc/self/cgroup", "0::/job\n");
    static const char *const numbers[] = { "-1\n", "99999999999999999999999\n", "", "\n", "1152921504606846976\n" };
    for (size_t i = 0; i < sizeof(numbers) / sizeof(*numbers); i++) {
        write_file("sys/fs/cgroup/job/memory.max", numbers[i]);
        assert_int_equal(limit(), INT64_MAX);
    }
    write_file("sys/fs/cgroup/job/memory.max", "0\n");
    assert_int_equal(limit(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(nothing_limits, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_2_in_a_container, make_root, remove_root),
        cmocka_unit_test_setup_teardown(version_1, make_root, remove_root),
        cmocka_unit_test_setup_teardown(other_controllers_say_nothing, make_root, remove_root),
        cmocka_unit_test_setup_teardown(strange_numbers, make_root, remove_root),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
