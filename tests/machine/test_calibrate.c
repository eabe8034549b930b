/* Calibration: figures are kept, and equal on every process; files that are damaged, missing, not
 * writable, or different on each process. */
#include "folder.h"
#include "support.h"

#include <math.h>
#if WEFT_HAVE_MPI
#include <mpi.h>
#endif
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "comm/comm.h"
#include "machine/agree.h"

static char folder[64]; /* of this process */
static char path[128];  /* of the file in it */

/* ---- support ------------------------------------------------------------------------------------------- */

static void remove_file(void)
{
    char lock[160];
    unlink(path);
    snprintf(lock, sizeof(lock), "%s.lock", path);
    unlink(lock);
}

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/weft-calibrate-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof(path), "%s/weft", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(path, sizeof(path), "%s/weft/a-host", folder);
    setenv("STARPU_HOSTNAME", "a-host", 1);
    setenv("STARPU_PERF_MODEL_DIR", folder, 1);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

static void start(const char *how)
{
    setenv("WEFT_CALIBRATE", how, 1);
    assert_int_equal(weft_init(NULL), WEFT_OK);
    assert_no_error();
}

static void stop(void)
{
    assert_int_equal(weft_finalize(), WEFT_OK);
}

static int process_index(void)
{
    start("off");
    int process = weft_process_index();
    stop();
    return process;
}

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

/* Figures that no machine has. */
static weft_machine made_up(int number)
{
    double f = ldexp(1, number);
    return (weft_machine){ 3 * f, 1024 * f, 2048 * f, { 16 * f, f, 256 * f }, { 32 * f, 2 * f, 64 * f } };
}

static void write_machine(int number)
{
    weft_machine machine = made_up(number);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(weft_machine_write(&machine, file));
    fclose(file);
}

static bool file_is_whole(weft_machine *machine)
{
    FILE *file = fopen(path, "r");
    bool whole = file != NULL && weft_machine_read(file, machine);
    if (file != NULL) {
        fclose(file);
    }
    return whole;
}

/* Every process has these figures, and what follows from them. */
static void assert_agreement(void)
{
    typedef struct decided {
        weft_machine machine;
        weft_cost_model cost;
        weft_panel_policy panels;
        weft_message_sizes messages;
    } decided;
    enum { MOST = 8 };
    if (weft_num_processes() == 1) {
        return;
    }
    decided mine, all[MOST];
    memset(&mine, 0, sizeof(mine));
    memset(all, 0, sizeof(all));
    mine.machine = weft_runtime.machine;
    mine.cost = weft_runtime.cost;
    mine.panels = weft_runtime.panels;
    mine.messages = weft_runtime.messages;
    bool came[MOST], equal = true;
    weft_comm_gather(weft_runtime.comm, &mine, all, sizeof(mine), came);
    for (int p = 1; p < weft_num_processes() && weft_process_index() == 0; p++) {
        equal = equal && came[p] && memcmp(&all[p].machine, &mine.machine, sizeof(mine.machine)) == 0 &&
                memcmp(&all[p].panels, &mine.panels, sizeof(mine.panels)) == 0 &&
                memcmp(&all[p].messages, &mine.messages, sizeof(mine.messages)) == 0 &&
                all[p].cost.remote_byte_us == mine.cost.remote_byte_us &&
                all[p].cost.local_message_us == mine.cost.local_message_us;
    }
    assert_true(weft_comm_broadcast(weft_runtime.comm, &equal, sizeof(equal)));
    assert_true(equal);
}

static void assert_measured(void)
{
    const weft_machine *m = &weft_runtime.machine;
    assert_ptr_equal(weft_runtime.machine_source, weft_machine_measured);
    assert_true(m->task_us > 0 && m->copy_bytes_per_us > 0 && m->product_flops_per_us > 0);
    assert_true(weft_link_known(&m->near) || weft_num_processes() == 1);
}

static void assert_machine(const weft_machine *expected)
{
    assert_memory_equal(&weft_runtime.machine, expected, sizeof(*expected));
}

/* ---- cases --------------------------------------------------------------------------------------------- */

static void test_off_is_built_in(void **state)
{
    (void)state;
    static const weft_machine builtin = WEFT_MACHINE_DEFAULT;
    static const weft_panel_policy panels = WEFT_PANEL_POLICY_DEFAULT;
    write_machine(1);
    start("off");
    assert_ptr_equal(weft_runtime.machine_source, weft_machine_builtin);
    assert_machine(&builtin);
    assert_true(weft_runtime.panels.byte_us == panels.byte_us &&
                weft_runtime.panels.panel_us == panels.panel_us);
    assert_agreement();
    stop();
    remove_file();
}

static void test_measured_once(void **state)
{
    (void)state;
    remove_file();
    start("auto");
    assert_measured();
    assert_agreement();
    weft_panel_policy panels = weft_runtime.panels;
    int process = weft_process_index();
    stop();
    weft_machine kept;
    assert_true(file_is_whole(&kept) == (process == 0));
    start("auto");
    assert_ptr_equal(weft_runtime.machine_source, weft_machine_kept);
    assert_true(process != 0 || memcmp(&kept, &weft_runtime.machine, sizeof(kept)) == 0);
    assert_true(panels.byte_us == weft_runtime.panels.byte_us &&
                panels.panel_us == weft_runtime.panels.panel_us);
    assert_int_equal(panels.min_bytes, weft_runtime.panels.min_bytes);
    assert_int_equal(panels.min_rows, weft_runtime.panels.min_rows);
    assert_agreement();
    stop();
    remove_file();
}

static void test_each_process_has_another_file(void **state)
{
    (void)state;
    int process = process_index();
    write_machine(process);
    weft_machine expected = made_up(0);
    start("auto");
    assert_ptr_equal(weft_runtime.machine_source, weft_machine_kept);
    assert_machine(&expected);
    assert_agreement();
    stop();
    weft_machine mine, before = made_up(process);
    assert_true(file_is_whole(&mine)); /* those of others are not touched */
    assert_memory_equal(&mine, &before, sizeof(mine));
    remove_file();
}

static void test_broken_files_are_measured_anew(void **state)
{
    (void)state;
    static const char *const texts[] = { "", "weft-machine 2\ntask_us 2.000\n", "weft-machine 999\n",
                                         "\xff\xfe nonsense" };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(texts); i++) {
        write_text(texts[i]);
        start("auto");
        assert_measured();
        assert_agreement();
        int process = weft_process_index();
        stop();
        weft_machine kept;
        assert_true(file_is_whole(&kept) == (process == 0));
    }
    remove_file();
}

static void test_again_measures_again(void **state)
{
    (void)state;
    write_machine(9);
    start("again");
    assert_measured();
    assert_agreement();
    weft_machine before = made_up(9);
    const weft_link *near = &weft_runtime.machine.near;
    assert_true(weft_runtime.machine.task_us != before.task_us);
    assert_true((near->latency_us != before.near.latency_us) == (weft_num_processes() > 1));
    assert_true(weft_runtime.machine.far.latency_us == before.far.latency_us); /* there is none to measure */
    stop();
    remove_file();
}

/* A link that an earlier world did not have is added, and the rest stays. */
static void test_a_link_is_added(void **state)
{
    (void)state;
    weft_machine alone = made_up(2);
    alone.near = alone.far = (weft_link){ 0 };
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(weft_machine_write(&alone, file));
    fclose(file);
    start("auto");
    assert_true(weft_runtime.machine.task_us == alone.task_us);
    assert_true(weft_link_known(&weft_runtime.machine.near) == (weft_num_processes() > 1));
    assert_false(weft_link_known(&weft_runtime.machine.far));
    assert_agreement();
    stop();
    remove_file();
}

static void test_no_place_to_keep_it(void **state)
{
    (void)state;
    char inner[128];
    snprintf(inner, sizeof(inner), "%s/weft", folder);
    remove_tree(inner);
    FILE *file = fopen(inner, "w"); /* where the folder should be; StarPU itself goes on */
    assert_non_null(file);
    fclose(file);
    for (int i = 0; i < 2; i++) {
        start("auto");
        assert_measured();
        assert_agreement();
        assert_int_equal(weft_print_machine(NULL), WEFT_ERR_INVALID);
        weft_clear_error();
        stop();
    }
    assert_int_equal(unlink(inner), 0);
}

#if WEFT_HAVE_MPI
/* In the place of MPI's, which it calls. */
static atomic_int words_sent;

int MPI_Isend(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    words_sent += count == 8 && type == MPI_BYTE;
    return PMPI_Isend(buffer, count, type, target, tag, comm, request);
}

/* Links are measured with single messages, whatever is packed later. */
static void test_nothing_is_packed_while_it_measures(void **state)
{
    (void)state;
    int sent[2];
    bool several = false;
    for (int packed = 0; packed < 2; packed++) {
        setenv("WEFT_PACK_BYTES", packed ? "4096" : "0", 1);
        words_sent = 0;
        start("again");
        sent[packed] = words_sent;
        several = weft_num_processes() > 1;
        assert_measured();
        stop();
    }
    unsetenv("WEFT_PACK_BYTES");
    int process = process_index();
    remove_file();
    if (process == 0 && several) {
        assert_true(sent[0] > 200 && sent[1] > 200);
    }
}
#endif

/* Takes the memory away that a measurement needs: built-in figures then, and only for this start. */
static void test_what_failed_is_not_kept(void **state)
{
    (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    skip(); /* they take address space as they like */
#endif
    static const weft_machine builtin = WEFT_MACHINE_DEFAULT;
    remove_file();
    int process = process_index(); /* and MPI has its memory now */
    assert_int_equal(starpu_init(NULL), 0);
    struct rlimit before;
    assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file == NULL || fscanf(file, "%ld", &pages) != 1) {
        starpu_shutdown();
        skip();
    }
    fclose(file);
    struct rlimit tight = before;
    tight.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ((rlim_t)48 << 20);
    assert_int_equal(setrlimit(RLIMIT_AS, &tight), 0);
    start("auto");
    assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
    assert_ptr_equal(weft_runtime.machine_source, weft_machine_builtin);
    assert_machine(&builtin);
    assert_agreement();
    stop();
    weft_machine kept;
    assert_false(file_is_whole(&kept));
    start("auto");
    assert_measured();
    assert_agreement();
    stop();
    starpu_shutdown();
    assert_true(file_is_whole(&kept) == (process == 0));
    remove_file();
}

/* Whatever has been measured: the next start gives the same sums, bit for bit. */
static void test_results_repeat(void **state)
{
    (void)state;
    enum { N = 700 };
    float *values[2], sums[2];
    remove_file();
    for (int run = 0; run < 2; run++) {
        start("auto");
        int64_t ranks = weft_world_size();
        weft_scope_begin();
        weft_mesh_push(weft_mesh_create(1, &ranks, NULL));
        weft_placement rows = weft_shard(0), columns = weft_shard(1);
        weft_tensor *a = weft_randn(WEFT_F32, 2, (int64_t[]){ N, N }, NULL, &columns);
        weft_tensor *b = weft_randn(WEFT_F32, 2, (int64_t[]){ N, N }, NULL, &rows);
        weft_tensor *product = weft_matmul(a, b);
        values[run] = malloc(N * N * sizeof(float));
        assert_int_equal(weft_to_host(product, values[run], N * N * sizeof(float)), WEFT_OK);
        assert_int_equal(weft_to_host(weft_sum(product, WEFT_ALL_DIMS, false), &sums[run], sizeof(sums[run])), WEFT_OK);
        assert_no_error();
        weft_scope_end();
        stop();
    }
    assert_memory_equal(values[0], values[1], N * N * sizeof(float));
    assert_memory_equal(&sums[0], &sums[1], sizeof(float));
    free(values[0]);
    free(values[1]);
    remove_file();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_off_is_built_in),
        cmocka_unit_test(test_measured_once),
        cmocka_unit_test(test_each_process_has_another_file),
        cmocka_unit_test(test_broken_files_are_measured_anew),
        cmocka_unit_test(test_again_measures_again),
        cmocka_unit_test(test_a_link_is_added),
        cmocka_unit_test(test_no_place_to_keep_it),
        cmocka_unit_test(test_what_failed_is_not_kept),
#if WEFT_HAVE_MPI
        cmocka_unit_test(test_nothing_is_packed_while_it_measures),
#endif
        cmocka_unit_test(test_results_repeat),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
