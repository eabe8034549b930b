/* Settings from weft_config, the environment and the defaults. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <weft/graph.h>

#include "runtime/failures.h"
#include "runtime/runtime.h"
#include "runtime/variables.h"

/* as PyTorch's process groups */
enum { DEFAULT_TIMEOUT_S = 1800, DEFAULT_CACHE_BYTES = 128 << 20 };

enum { MAX_PACK_BYTES = 16384 };

/* Reads an integer in [min, max] from the environment into *value; unset leaves *value as it is. False
 * with the error kept for anything else. */
static bool read_integer(const char *function, weft_variable variable, int64_t min, int64_t max,
                         int64_t *value)
{
    const char *text = weft_variable_text(variable);
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 0);
    if (errno != 0 || *end != '\0' || number < min || number > max) {
        weft_fail(WEFT_ERR_INVALID, function, "%s is \"%s\", expected %lld to %lld",
                  weft_variable_name(variable), text, (long long)min, (long long)max);
        return false;
    }
    *value = number;
    return true;
}

static bool read_int(const char *function, weft_variable variable, int min, int *value)
{
    int64_t wide = *value;
    if (!read_integer(function, variable, min, INT_MAX, &wide)) {
        return false;
    }
    *value = (int)wide;
    return true;
}

/* 0 or 1; unset leaves *value as it is. */
static bool read_switch(const char *function, weft_variable variable, int *value)
{
    int64_t wide = *value;
    bool right = read_integer(function, variable, 0, 1, &wide);
    *value = (int)wide;
    return right;
}

static bool read_seed(const char *function, uint64_t *seed)
{
    const char *text = weft_variable_text(WEFT_VARIABLE_SEED);
    if (text == NULL) {
        return true;
    }
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (errno != 0 || *end != '\0' || text[0] == '-') {
        weft_fail(WEFT_ERR_INVALID, function, "WEFT_SEED is \"%s\", expected a 64-bit unsigned number", text);
        return false;
    }
    *seed = number;
    return true;
}

/* The index of the variable's word in the list; unset leaves *number as it is. False with the error kept. */
static bool read_word(const char *function, weft_variable variable, int count, const char *const words[],
                      const char *expected, int *number)
{
    const char *text = weft_variable_text(variable);
    if (text == NULL) {
        return true;
    }
    for (int i = 0; i < count; i++) {
        if (strcasecmp(text, words[i]) == 0) {
            *number = i;
            return true;
        }
    }
    weft_fail(WEFT_ERR_INVALID, function, "%s is \"%s\", expected %s", weft_variable_name(variable), text,
              expected);
    return false;
}

static bool read_world(const char *function, weft_world *world)
{
    static const char *const words[] = { "auto", "self", "mpi", "fake" };
    int number = (int)*world;
    bool right = read_word(function, WEFT_VARIABLE_WORLD, 4, words, "auto, self, mpi or fake", &number);
    *world = (weft_world)number;
    return right;
}

static bool read_task_cache(const char *function, weft_task_cache *cache)
{
    static const char *const words[] = { "on", "off", "check" };
    int number = (int)*cache;
    bool right = read_word(function, WEFT_VARIABLE_TASK_CACHE, 3, words, "on, off or check", &number);
    *cache = (weft_task_cache)number;
    return right;
}

/* Whether devices compute in the order that is fastest there. */
static bool read_bits(const char *function, bool *fast)
{
    static const char *const words[] = { "cpu", "fast" };
    int number = *fast;
    bool right = read_word(function, WEFT_VARIABLE_BITS, 2, words, "fast or cpu", &number);
    *fast = number != 0;
    return right;
}

/* Must be equal on all processes, as the panels' settings must be. */
static bool read_algorithm(const char *function, weft_algorithm *algorithm)
{
    const char *text = weft_variable_text(WEFT_VARIABLE_PLAN);
    if (text == NULL) {
        return true;
    }
    for (weft_algorithm a = WEFT_DIRECT; a <= WEFT_ALGORITHM_AUTO; a++) {
        if (strcasecmp(text, weft_algorithm_name(a)) == 0) {
            *algorithm = a;
            return true;
        }
    }
    weft_fail(WEFT_ERR_INVALID, function, "WEFT_PLAN is \"%s\", expected auto, direct, chain, tree or once",
              text);
    return false;
}

/* The pass of a name of `size` bytes; 0: there is none. */
static unsigned find_pass(const char *name, size_t size)
{
    static const struct {
        const char *name;
        unsigned passes;
    } known[] = { { "redundant", WEFT_PASS_REDUNDANT }, { "common", WEFT_PASS_COMMON },   { "dead", WEFT_PASS_DEAD },
                  { "bucket", WEFT_PASS_BUCKET },       { "fuse", WEFT_PASS_FUSE },       { "cluster", WEFT_PASS_CLUSTER },
                  { "memory", WEFT_PASS_MEMORY },       { "order", WEFT_PASS_ORDER },
                  { "all", WEFT_PASS_ALL } };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(known); i++) {
        if (strlen(known[i].name) == size && strncasecmp(known[i].name, name, size) == 0) {
            return known[i].passes;
        }
    }
    return 0;
}

/* Names with commas between them, or "none". */
static bool read_passes(const char *function, unsigned *passes)
{
    const char *text = weft_variable_text(WEFT_VARIABLE_GRAPH_PASSES);
    if (text == NULL) {
        return true;
    }
    bool none = strcasecmp(text, "none") == 0, right = true;
    unsigned sum = 0;
    for (const char *at = text; !none && right;) {
        size_t size = strcspn(at, ",");
        unsigned pass = find_pass(at, size);
        sum |= pass;
        right = pass != 0;
        if (at[size] == '\0') {
            break;
        }
        at += size + 1;
    }
    if (!right) {
        weft_fail(WEFT_ERR_INVALID, function, "WEFT_GRAPH_PASSES is \"%s\", expected all, none, or names of passes, as in "
                                              "\"dead,cluster\"",
                  text);
    }
    *passes = right ? sum : *passes;
    return right;
}

static bool read_calibration(const char *function, weft_calibration *calibration)
{
    static const struct {
        const char *name;
        weft_calibration value;
    } names[] = { { "auto", WEFT_CALIBRATE_ONCE },
                  { "1", WEFT_CALIBRATE_AGAIN },
                  { "again", WEFT_CALIBRATE_AGAIN },
                  { "0", WEFT_CALIBRATE_OFF },
                  { "off", WEFT_CALIBRATE_OFF } };
    const char *text = weft_variable_text(WEFT_VARIABLE_CALIBRATE);
    if (text == NULL) {
        return true;
    }
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(names); i++) {
        if (strcasecmp(text, names[i].name) == 0) {
            *calibration = names[i].value;
            return true;
        }
    }
    weft_fail(WEFT_ERR_INVALID, function, "WEFT_CALIBRATE is \"%s\", expected auto, again (1) or off (0)",
              text);
    return false;
}

/* Reads it at an error too, which may be before weft_init(). */
static bool check_on_error(const char *function)
{
    if (weft_on_error_read() == WEFT_ON_ERROR_UNKNOWN) {
        weft_fail(WEFT_ERR_INVALID, function, "WEFT_ON_ERROR is \"%s\", expected print or abort",
                  weft_variable_text(WEFT_VARIABLE_ON_ERROR));
        return false;
    }
    return true;
}

static bool is_world(weft_world world)
{
    return (int)world >= WEFT_WORLD_AUTO && (int)world <= WEFT_WORLD_FAKE;
}

static bool check_config(const char *function, const weft_config *config)
{
    const char *wrong = NULL;
    if (!is_world(config->world)) {
        wrong = "world, which is no weft_world";
    } else if (config->local_ranks < 0) {
        wrong = "local_ranks, which is negative";
    } else if (config->fake_size < 0) {
        wrong = "fake_size, which is negative";
    } else if (config->ranks < 0) {
        wrong = "ranks, which is negative";
    } else if (config->workers < 0) {
        wrong = "workers, which is negative";
    } else if (config->pool_bytes < 0) {
        wrong = "pool_bytes, which is negative";
    } else if (config->cache_bytes < 0) {
        wrong = "cache_bytes, which is negative";
    } else if (config->timeout_s < 0) {
        wrong = "timeout_s, which is negative";
    } else if (config->ranks > 0 && config->local_ranks > 0) {
        wrong = "ranks and local_ranks: set one of them";
    }
    if (wrong != NULL) {
        weft_fail(WEFT_ERR_INVALID, function, "config has a wrong field: %s", wrong);
    }
    return wrong == NULL;
}

/* Members set by the program win over the environment; ranks and local_ranks exclude each other. Invalid
 * members are ignored. */
static void take_config(const weft_config *config, weft_settings *settings)
{
    if (config->world != WEFT_WORLD_AUTO && is_world(config->world)) {
        settings->world = config->world;
    }
    if (config->ranks > 0 || config->local_ranks > 0) {
        settings->ranks = config->ranks;
        settings->local_ranks = config->local_ranks;
    }
    if (config->fake_size > 0) {
        settings->fake_size = config->fake_size;
    }
    if (config->seed != 0) {
        settings->seed = config->seed;
    }
    if (config->workers > 0) {
        settings->workers = config->workers;
    }
    if (config->pool_bytes > 0) {
        settings->pool_bytes = config->pool_bytes;
    }
    if (config->cache_bytes > 0) {
        settings->cache_bytes = config->cache_bytes;
    }
    if (config->timeout_s > 0) {
        settings->timeout_s = config->timeout_s;
    }
    if (config->max_pending_tasks != 0) {
        settings->max_pending_tasks = config->max_pending_tasks;
    }
}

/* World and time-out first: they are needed to report errors in the others. */
static bool read_environment(const char *function, weft_settings *settings)
{
    int timeout = DEFAULT_TIMEOUT_S;
    int64_t check = 0, silent = 0, signals = 1, tf32 = 0, autograph = 0;
    bool meets =
        read_world(function, &settings->world) && read_int(function, WEFT_VARIABLE_TIMEOUT_S, 0, &timeout);
    settings->timeout_s = timeout;
    bool right = meets && read_algorithm(function, &settings->algorithm) &&
                 read_calibration(function, &settings->calibration) &&
                 read_task_cache(function, &settings->task_cache) && read_bits(function, &settings->fast) &&
                 read_passes(function, &settings->graph_passes) && check_on_error(function) &&
                 read_int(function, WEFT_VARIABLE_LOCAL_RANKS, 1, &settings->local_ranks) &&
                 read_int(function, WEFT_VARIABLE_RANKS, 1, &settings->ranks) &&
                 read_int(function, WEFT_VARIABLE_FAKE_SIZE, 1, &settings->fake_size) &&
                 read_int(function, WEFT_VARIABLE_FAKE_PROCESSES, 1, &settings->fake_processes) &&
                 read_int(function, WEFT_VARIABLE_WORKERS, 1, &settings->workers) &&
                 read_int(function, WEFT_VARIABLE_DEVICES, 0, &settings->devices) &&
                 read_switch(function, WEFT_VARIABLE_NCCL, &settings->nccl) &&
                 read_switch(function, WEFT_VARIABLE_MPI_DEVICES, &settings->mpi_devices) &&
                 read_integer(function, WEFT_VARIABLE_TF32, 0, 1, &tf32) &&
                 read_seed(function, &settings->seed) &&
                 read_integer(function, WEFT_VARIABLE_POOL_BYTES, 0, INT64_MAX, &settings->pool_bytes) &&
                 read_integer(function, WEFT_VARIABLE_CACHE_BYTES, 0, INT64_MAX, &settings->cache_bytes) &&
                 read_integer(function, WEFT_VARIABLE_MEMORY_BYTES, 0, INT64_MAX, &settings->memory_bytes) &&
                 read_integer(function, WEFT_VARIABLE_MAX_PENDING_TASKS, -1, INT64_MAX,
                              &settings->max_pending_tasks) &&
                 read_integer(function, WEFT_VARIABLE_AUTOGRAPH, 0, 1, &autograph) &&
                 read_integer(function, WEFT_VARIABLE_CHECK, 0, 1, &check) &&
                 read_integer(function, WEFT_VARIABLE_SILENT, 0, 1, &silent) &&
                 read_integer(function, WEFT_VARIABLE_SIGNALS, 0, 1, &signals) &&
                 read_integer(function, WEFT_VARIABLE_PACK_BYTES, 0, MAX_PACK_BYTES, &settings->pack_bytes) &&
                 read_integer(function, WEFT_VARIABLE_PANEL_BYTES, 1, INT64_MAX, &settings->panel_bytes) &&
                 read_integer(function, WEFT_VARIABLE_PANEL_ROWS, 1, INT64_MAX, &settings->panel_rows);
    settings->autograph = autograph != 0;
    settings->check = check != 0;
    settings->silent = silent != 0;
    settings->signals = signals != 0;
    settings->tf32 = tf32 != 0;
    return right;
}

weft_status weft_settings_read(const char *function, const weft_config *given, weft_settings *settings)
{
    weft_config own = WEFT_CONFIG_DEFAULT;
    bool taken = given == NULL || WEFT_TAKE_OPTIONS(function, &own, given);
    const weft_config *config = given == NULL ? NULL : &own;
    *settings = (weft_settings){ .algorithm = WEFT_ALGORITHM_AUTO,
                                 .cache_bytes = DEFAULT_CACHE_BYTES,
                                 .calibration = WEFT_CALIBRATE_ONCE,
                                 .pack_bytes = -1,
                                 .nccl = -1,
                                 .mpi_devices = -1,
                                 .fast = true,
                                 .graph_passes = WEFT_PASS_ALL };
    bool right = taken && (config == NULL || check_config(function, config));
    right = read_environment(function, settings) && right;
    if (config != NULL) {
        take_config(config, settings);
    }
    if (settings->local_ranks == 0) {
        settings->local_ranks = 1;
    }
    if (settings->fake_size == 0) {
        settings->fake_size = settings->ranks > 0 ? settings->ranks : 1;
    }
    return right ? WEFT_OK : weft_latest_status();
}
