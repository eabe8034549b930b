#include "runtime/variables.h"

#include <stdlib.h>
#include <string.h>

#include "base/base.h"

extern char **environ;

static const char prefix[] = "WEFT_";

#define NAME_OF(name) "WEFT_" #name,
static const char *const names[] = { WEFT_VARIABLES(NAME_OF) };
#undef NAME_OF

const char *weft_variable_name(weft_variable variable)
{
    return names[variable];
}

const char *weft_variable_text(weft_variable variable)
{
    const char *text = getenv(names[variable]);
    return text == NULL || text[0] == '\0' ? NULL : text;
}

/* ---- misspelt names ------------------------------------------------------------------------------------ */

enum { LONGEST_NAME = 64 };

static bool is_known(const char *name)
{
    static const char *const families[] = { "WEFT_TEST_", "WEFT_BENCH_", "WEFT_PEERS_", "WEFT_TENSORS_" };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(families); i++) {
        if (strncmp(name, families[i], strlen(families[i])) == 0) {
            return true;
        }
    }
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(names); i++) {
        if (strcmp(name, names[i]) == 0) {
            return true;
        }
    }
    return false;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

/* Edit distance: letters to insert, delete, replace, or swap with a neighbour. Keeps three rows of the
 * table. Both names are shorter than LONGEST_NAME. */
static int edit_distance(const char *a, const char *b)
{
    int rows[3][LONGEST_NAME + 1];
    int lengths[2] = { (int)strlen(a), (int)strlen(b) };
    for (int i = 0; i <= lengths[0]; i++) {
        int *row = rows[i % 3], *above = rows[(i + 2) % 3], *second_above = rows[(i + 1) % 3];
        row[0] = i;
        for (int j = 1; j <= lengths[1]; j++) {
            if (i == 0) {
                row[j] = j;
                continue;
            }
            row[j] = least(least(above[j], row[j - 1]) + 1, above[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
                row[j] = least(row[j], second_above[j - 2] + 1);
            }
        }
    }
    return rows[lengths[0] % 3][lengths[1]];
}

/* The nearest known name; NULL: none is near. */
static const char *nearest(const char *name)
{
    const char *best = NULL;
    /* After WEFT_ a third may differ; two letters of a short name. */
    int limit = (int)(strlen(name) - strlen(prefix)) / 3, distance = limit > 2 ? limit : 2;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(names); i++) {
        int other = edit_distance(name, names[i]);
        if (other < distance || (other == distance && best == NULL)) {
            best = names[i];
            distance = other;
        }
    }
    return best;
}

static void warn_of(const char *entry, size_t length, FILE *file)
{
    char name[LONGEST_NAME];
    bool fits = length < sizeof(name);
    memcpy(name, entry, fits ? length : 0);
    name[fits ? length : 0] = '\0';
    if (is_known(fits ? name : entry)) {
        return;
    }
    const char *meant = fits ? nearest(name) : NULL;
    fprintf(file, "weft: %.*s is set, which weft does not know%s%s%s (WEFT_SILENT=1: no warnings)\n",
            (int)length, entry, meant != NULL ? ": did you mean " : "", meant != NULL ? meant : "",
            meant != NULL ? "?" : "");
}

void weft_variables_warn(FILE *file)
{
    for (char **entry = environ; entry != NULL && *entry != NULL; entry++) {
        if (strncmp(*entry, prefix, strlen(prefix)) == 0) {
            warn_of(*entry, strcspn(*entry, "="), file);
        }
    }
}

bool weft_starpu_measures(void)
{
    const char *text = getenv("STARPU_CALIBRATE");
    return text != NULL && atoi(text) > 0;
}
