/* weft_settings_read(), weft_predict_check() and the warning of misspelt names: the environment. Each line is a variable: its first byte
 * chooses one of weft's, or one whose name stands before the line's "=". Accepted settings are in their ranges. */
#include "fuzz.h"
#include "predict/predict.h"
#include "runtime/runtime.h"
#include "runtime/variables.h"

enum { MOST_LINES = 16 };

extern char **environ;

static FILE *nowhere;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void)argc, (void)argv;
    nowhere = fopen("/dev/null", "w");
    FUZZ_REQUIRE(nowhere != NULL);
    return 0;
}

static char *entry_of(const char *line)
{
    int variable = (unsigned char)line[0] - '0';
    const char *name = variable >= 0 && variable < WEFT_VARIABLE_COUNT ? weft_variable_name((weft_variable)variable) : NULL;
    size_t size = strlen(line) + 64;
    char *entry = malloc(size);
    FUZZ_REQUIRE(entry != NULL);
    snprintf(entry, size, "%s%s%s", name == NULL ? "WEFT_" : name, name == NULL ? "" : "=", line[0] == '\0' ? "" : line + 1);
    return entry;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = fuzz_text(data, size), *entries[MOST_LINES + 1] = { NULL };
    int count = 0;
    for (char *line = text; line != NULL && count < MOST_LINES;) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        entries[count++] = entry_of(line);
        line = end == NULL ? NULL : end + 1;
    }
    /* Not setenv(), which keeps all values. */
    char **before = environ;
    environ = entries;
    weft_settings settings;
    if (weft_settings_read("fuzz", NULL, &settings) == WEFT_OK) {
        FUZZ_REQUIRE(settings.local_ranks >= 1 && settings.ranks >= 0 && settings.fake_size >= 1 && settings.fake_processes >= 0);
        FUZZ_REQUIRE(settings.workers >= 0 && settings.devices >= 0 && settings.timeout_s >= 0);
        FUZZ_REQUIRE(settings.pool_bytes >= 0 && settings.cache_bytes >= 0 && settings.max_pending_tasks >= -1);
        FUZZ_REQUIRE(settings.panel_bytes >= 0 && settings.panel_rows >= 0 && settings.pack_bytes >= -1);
        FUZZ_REQUIRE((settings.graph_passes & ~(unsigned)WEFT_PASS_ALL) == 0);
    }
    weft_predict_check("fuzz");
    weft_variables_warn(nowhere);
    environ = before;
    weft_clear_error();
    for (int i = 0; i < count; i++) {
        free(entries[i]);
    }
    free(text);
    return 0;
}
