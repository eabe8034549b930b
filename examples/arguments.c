#include "arguments.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ARGUMENTS = 32 };

bool integer_read(const char *text, int64_t min, int64_t max, int64_t *value)
{
    char *end = NULL;
    errno = 0;
    long long number = strtoll(text, &end, 10);
    if (errno != 0 || end == text || *end != '\0' || number < min || number > max) {
        return false;
    }
    *value = number;
    return true;
}

bool float_type_read(const char *text, void *into)
{
    bool single = strcmp(text, "f32") == 0;
    *(weft_dtype *)into = single ? WEFT_F32 : WEFT_F64;
    return single || strcmp(text, "f64") == 0;
}

static bool read_positive(const char *text, double *value)
{
    char *end = NULL;
    double number = strtod(text, &end);
    if (end == text || *end != '\0' || !(number > 0) || number > 1e6) {
        return false;
    }
    *value = number;
    return true;
}

/* How many sizes it has. */
static int count_sizes(const argument *a)
{
    int count = 1;
    for (const char *c = a->value; *c != '\0'; c++) {
        count += *c == 'x';
    }
    return count;
}

static bool read_sizes(const argument *a, const char *text)
{
    int64_t *sizes = a->into;
    const int count = count_sizes(a);
    for (int d = 0; d < count; d++) {
        char *end = NULL;
        errno = 0;
        sizes[d] = strtoll(text, &end, 10);
        if (errno != 0 || end == text || sizes[d] < a->min || sizes[d] > a->max || *end != (d < count - 1 ? 'x' : '\0')) {
            return false;
        }
        text = end + 1;
    }
    return true;
}

static bool read_one(const argument *a, const char *text)
{
    switch (a->kind) {
    case ARGUMENT_FLAG:
        *(bool *)a->into = true;
        return true;
    case ARGUMENT_INTEGER:
        return integer_read(text, a->min, a->max, a->into);
    case ARGUMENT_NUMBER:
        return read_positive(text, a->into);
    case ARGUMENT_SIZES:
        return read_sizes(a, text);
    case ARGUMENT_STRING:
        *(const char **)a->into = text;
        return true;
    default:
        return a->read(text, a->into);
    }
}

static void print_default(const argument *a)
{
    if (a->kind == ARGUMENT_INTEGER) {
        printf(" (%" PRId64 ")", *(const int64_t *)a->into);
    } else if (a->kind == ARGUMENT_NUMBER) {
        printf(" (%g)", *(const double *)a->into);
    } else if (a->kind == ARGUMENT_SIZES && *(const int64_t *)a->into != 0) {
        for (int d = 0; d < count_sizes(a); d++) {
            printf("%s%" PRId64, d == 0 ? " (" : "x", ((const int64_t *)a->into)[d]);
        }
        putchar(')');
    } else if (a->kind == ARGUMENT_STRING && *(const char **)a->into != NULL) {
        printf(" (%s)", *(const char **)a->into);
    }
}

static void print_help(const char *program, int n, const argument table[], const char *introduction)
{
    printf("usage: %s [OPTION]...\n%s\n", program, introduction);
    for (int i = 0; i < n; i++) {
        const argument *a = &table[i];
        char option[64];
        snprintf(option, sizeof(option), "--%s %s", a->name, a->value != NULL ? a->value : "");
        printf("  %-22s %s", option, a->help);
        print_default(a);
        putchar('\n');
    }
    printf("  --help\n");
}

int arguments_read(int n, const argument table[], const char *introduction, int argc, char *argv[])
{
    struct option options[MAX_ARGUMENTS + 2] = { { 0 } };
    for (int i = 0; i < n && i < MAX_ARGUMENTS; i++) {
        options[i] =
            (struct option){ table[i].name, table[i].kind == ARGUMENT_FLAG ? no_argument : required_argument,
                             NULL, i };
    }
    options[n] = (struct option){ "help", no_argument, NULL, n };
    int which = 0;
    while ((which = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (which == n) {
            print_help(argv[0], n, table, introduction);
            return 0;
        }
        if (which == '?') {
            return 2; /* getopt has printed a message */
        }
        if (!read_one(&table[which], optarg)) {
            fprintf(stderr, "%s: --%s cannot be \"%s\" (see --help)\n", argv[0], table[which].name, optarg);
            return 2;
        }
    }
    if (optind < argc) {
        fprintf(stderr, "%s: \"%s\" is no option (see --help)\n", argv[0], argv[optind]);
        return 2;
    }
    return -1;
}
