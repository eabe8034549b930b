#include "machine/model.h"

#include <string.h>

typedef struct rate {
    const char *name;
    double *value;
} rate;

enum { NUM_RATES = 15 };

static void rates_of(weft_machine_model *m, rate rates[NUM_RATES])
{
    const rate all[NUM_RATES] = {
        { "f64_flops_per_us", &m->f64_flops_per_us },
        { "f16_flops_per_us", &m->f16_flops_per_us },
        { "attention_flops_per_us", &m->attention_flops_per_us },
        { "convolution_flops_per_us", &m->convolution_flops_per_us },
        { "elementwise_bytes_per_us", &m->elementwise_bytes_per_us },
        { "row_bytes_per_us", &m->row_bytes_per_us },
        { "random_bytes_per_us", &m->random_bytes_per_us },
        { "submit_us", &m->submit_us },
        { "operand_us", &m->operand_us },
        { "worker_us", &m->worker_us },
        { "transfer_us", &m->transfer_us },
        { "message_cpu_us", &m->message_cpu_us },
        { "cpu_bytes_per_us", &m->cpu_bytes_per_us },
        { "workers", &m->workers },
        { "cores", &m->cores },
    };
    memcpy(rates, all, sizeof(all));
}

/* The division of a task's time between submission and worker, and rates in terms of products and copies: as measured on two
 * cores of a server (docs/performance.md); copies read and write. Messages over a kernel's TCP slow products down to 0.85 of
 * their rate on a core that sends and receives 118 bytes a microsecond. */
weft_machine_model weft_machine_model_of(const weft_machine *machine)
{
    double task = machine->task_us, copy = 2 * machine->copy_bytes_per_us, product = machine->product_flops_per_us;
    return (weft_machine_model){
        .machine = *machine,
        .f64_flops_per_us = product / 2,
        .f16_flops_per_us = product * 0.9,
        .attention_flops_per_us = product * 0.4,
        .convolution_flops_per_us = product * 0.3,
        .elementwise_bytes_per_us = copy * 0.6,
        .row_bytes_per_us = copy * 0.4,
        .random_bytes_per_us = copy * 0.05,
        .submit_us = 0.5 * task,
        .operand_us = 0.25 * task,
        .worker_us = 0.5 * task,
        .transfer_us = 2 * task,
        .message_cpu_us = weft_machine_link(machine, (weft_spread){ 2, 2 }).message_us,
        .cpu_bytes_per_us = machine->copy_bytes_per_us / 9,
    };
}

/* A number as "12.345", in any locale. */
static bool parse(const char *text, double *value)
{
    size_t whole = strspn(text, "0123456789"), fraction = 0;
    if (text[whole] == '.') {
        fraction = strspn(text + whole + 1, "0123456789");
    }
    enum { MAX_WHOLE = 9, MAX_FRACTION = 6 };
    if (whole == 0 || whole > MAX_WHOLE || fraction > MAX_FRACTION || text[whole + (fraction > 0 ? 1 + fraction : 0)] != '\0') {
        return false;
    }
    double number = 0, scale = 1;
    for (const char *c = text; *c != '\0'; c++) {
        number = *c == '.' ? number : 10 * number + (*c - '0');
    }
    for (size_t i = 0; i < fraction; i++) {
        scale *= 10;
    }
    *value = number / scale;
    return true;
}

static bool read_rate(weft_machine_model *model, const char *name, const char *number, char *why, size_t size)
{
    double value;
    rate rates[NUM_RATES];
    rates_of(model, rates);
    if (!parse(number, &value)) {
        snprintf(why, size, "%s is \"%s\", which is no number", name, number);
        return false;
    }
    for (int i = 0; i < NUM_RATES; i++) {
        if (strcmp(rates[i].name, name) != 0) {
            continue;
        }
        *rates[i].value = value;
        bool is_rate = strstr(name, "_per_us") != NULL && strcmp(name, "cpu_bytes_per_us") != 0;
        if (is_rate && value <= 0) {
            snprintf(why, size, "%s is %s, expected more than 0", name, number);
        }
        return !is_rate || value > 0;
    }
    snprintf(why, size, "there is no figure \"%s\"", name);
    return false;
}

bool weft_machine_model_read(FILE *file, weft_machine_model *model, char *why, size_t size)
{
    weft_machine figures;
    if (!weft_machine_read_figures(file, &figures)) {
        snprintf(why, size, "it does not begin with the figures that weft-machine prints with --figures");
        return false;
    }
    weft_machine_model read = weft_machine_model_of(&figures);
    char name[64], number[64];
    for (;;) {
        if (fscanf(file, "%63s", name) != 1) {
            snprintf(why, size, "the line \"end\" is missing");
            return false;
        }
        if (strcmp(name, "end") == 0) {
            *model = read;
            return true;
        }
        if (fscanf(file, "%63s", number) != 1) {
            snprintf(why, size, "%s has no number", name);
            return false;
        }
        if (!read_rate(&read, name, number, why, size)) {
            return false;
        }
    }
}

bool weft_machine_model_write(const weft_machine_model *model, FILE *file)
{
    weft_machine_model copy = *model;
    rate rates[NUM_RATES];
    rates_of(&copy, rates);
    bool written = weft_machine_write_figures(&model->machine, file);
    for (int i = 0; i < NUM_RATES && written; i++) {
        written = weft_machine_write_figure(file, rates[i].name, *rates[i].value);
    }
    return written && fprintf(file, "end\n") > 0;
}
