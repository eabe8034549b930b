/* The consequences of a machine's figures, and their text form. */
#include "machine/machine.h"

#include <math.h>
#include <string.h>

/* ---- what follows -------------------------------------------------------------------------------------- */

bool weft_link_known(const weft_link *link)
{
    return link->bytes_per_us > 0;
}

/* Exact on every machine: no logarithm. */
static double nearest_power(double x)
{
    int exponent;
    double fraction = frexp(x, &exponent); /* in [1/2, 1) */
    return x > 0 ? ldexp(1, fraction * fraction < 0.5 ? exponent - 1 : exponent) : 0;
}

static weft_link rounded_link(const weft_link *link)
{
    return (weft_link){ nearest_power(link->latency_us), nearest_power(link->message_us),
                        nearest_power(link->bytes_per_us) };
}

weft_machine weft_machine_rounded(const weft_machine *machine)
{
    return (weft_machine){ nearest_power(machine->task_us), nearest_power(machine->copy_bytes_per_us),
                           nearest_power(machine->product_flops_per_us), rounded_link(&machine->near),
                           rounded_link(&machine->far) };
}

weft_link weft_machine_link(const weft_machine *machine, weft_spread spread)
{
    static const weft_machine builtin = WEFT_MACHINE_DEFAULT;
    bool far = spread.machines > 1;
    const weft_link *link = far ? &machine->far : &machine->near;
    return weft_link_known(link) ? *link : far ? builtin.far : builtin.near;
}

weft_cost_model weft_machine_cost(const weft_machine *machine, weft_spread spread)
{
    weft_link link = weft_machine_link(machine, spread);
    return (weft_cost_model){
        .local_latency_us = machine->task_us, /* inside a process a message is a copy task */
        .local_message_us = machine->task_us,
        .local_byte_us = 1 / machine->copy_bytes_per_us,
        .remote_latency_us = link.latency_us,
        .remote_message_us = link.message_us,
        .remote_byte_us = 1 / link.bytes_per_us,
        .algorithm = WEFT_ALGORITHM_AUTO,
    };
}

/* A product of few rows is slower, because the work per product that does not depend on its rows (packing
 * the right operand) weighs more, and there are as many more tasks as there are panels on both sides. A
 * faster kernel, or slower memory, needs more rows. Measured at 115 GFLOP/s and 26 GB/s, n = k = 1024:
 * products of 32 rows at 0.78 of the rate of all rows, 64 at 0.90, 128 at 0.94; char_lm on two hosts
 * (--mesh 2x1 --batch 1024 --hidden 1024), 25 steps, best of four runs: 64 rows 3.04 s, 128 rows 2.77, 256
 * rows 2.83, 512 rows 2.75. */
static int64_t min_product_rows(const weft_machine *machine)
{
    enum { FEWEST = 64, MOST = 256, ROWS_PER_FLOP_PER_BYTE = 32 };
    double rows =
        nearest_power(ROWS_PER_FLOP_PER_BYTE * machine->product_flops_per_us / machine->copy_bytes_per_us);
    return rows < FEWEST ? FEWEST : rows > MOST ? MOST : (int64_t)rows;
}

weft_panel_policy weft_machine_panels(const weft_machine *machine)
{
    enum { TASKS_PER_COPY = 8, MAX_PANELS = 64 };
    weft_link far = weft_machine_link(machine, (weft_spread){ 2, 2 });
    double copy_us = 1 / machine->copy_bytes_per_us, link_us = 1 / far.bytes_per_us;
    return (weft_panel_policy){
        .byte_us = copy_us > link_us ? copy_us : link_us,
        .panel_us = machine->task_us + far.message_us,
        .min_bytes = (int64_t)(TASKS_PER_COPY * machine->task_us * machine->copy_bytes_per_us),
        .min_rows = min_product_rows(machine),
        .max_panels = MAX_PANELS,
    };
}

/* A device computes a whole shard in one task: a task costs 20 us beside its kernel, in which an H100 moves 40 MB. Measured on one
 * of 80 GB (8192 x 8192, f32, panels of 4, 32 and 256 MB, the last one whole): additions at 0.07, 0.70 and 0.84 of the rate of a
 * copy, products of 4096 x 4096 at 0.16, 0.89 and 0.93 of cublasSgemm().
 *
 * Larger shards are cut, because a task whose operands exceed a quarter of the memory runs on a CPU (runtime/cuda.c), and a fused task may
 * have 16 operands. Several devices share the shard of one rank if each gets a part that is worth a task: the part grows with a
 * device's generation about as its memory does. */
static void use_devices(weft_panel_policy *policy, weft_device_world devices)
{
    enum { WHOLE_PART = 64, SHARED_PART = 2048 };
    if (devices.bytes > 0) {
        policy->whole_bytes = weft_max_i64(1, devices.bytes / WHOLE_PART);
        policy->least_panels = devices.per_rank;
        policy->min_bytes = weft_max_i64(policy->min_bytes, devices.bytes / SHARED_PART);
    }
}

weft_panel_policy weft_machine_prescribed_panels(const weft_machine *machine, int64_t panel_bytes,
                                                 int64_t panel_rows, weft_device_world devices)
{
    enum { MAX_PRESCRIBED_PANELS = 8 };
    weft_panel_policy policy = weft_machine_panels(machine);
    use_devices(&policy, devices);
    if (panel_bytes > 0) {
        policy.target_bytes = panel_bytes;
        policy.max_panels = MAX_PRESCRIBED_PANELS;
    }
    policy.forced_rows = panel_rows;
    return policy;
}

/* Open MPI's TCP sends messages of up to 60 KB without a rendezvous; this size was best over 1 Gbit/s
 * (tensor/exchange.c), where it takes fifty times a message's overhead. Fast links need larger messages
 * for that. The window keeps a link busy while ended messages are reported. */
weft_message_sizes weft_machine_messages(const weft_machine *machine, weft_spread spread)
{
    enum { FEWEST_BYTES = 60 * 1024, MAX_BYTES = 1 << 20, TIMES_OVERHEAD = 50, FEWEST_WINDOW = 300 * 1024 };
    enum { STAGING_BYTES = 32 << 20 };    /* enough to keep a link of 100 Gbit/s busy */
    const double fast_bytes_per_us = 500; /* 4 Gbit/s */
    weft_link link = weft_machine_link(machine, spread);
    bool fast = link.bytes_per_us > fast_bytes_per_us;
    double well_above = fast ? TIMES_OVERHEAD * link.message_us * link.bytes_per_us : 0;
    int64_t most = well_above < FEWEST_BYTES ? FEWEST_BYTES
                   : well_above > MAX_BYTES  ? MAX_BYTES
                                             : (int64_t)well_above;
    return (weft_message_sizes){ most, weft_max_i64(FEWEST_WINDOW, 5 * most), STAGING_BYTES };
}

/* ---- the text form ------------------------------------------------------------------------------------- */

/* Raised when a figure changes its meaning: older files are then measured anew. 2: the cost of a message
 * is that of one which travels alone. */
enum { VERSION = 2 };

typedef struct figure {
    const char *name;
    double *value;
    double least; /* the largest possible figure */
} figure;

enum { NUM_FIGURES = 9 };
/* No product of two figures and a small number exceeds 64 bits. */
static const double largest_figure = 1e8;

static void figures_of(weft_machine *m, figure figures[NUM_FIGURES])
{
    const figure all[NUM_FIGURES] = {
        { "task_us", &m->task_us, 1e-3 },
        { "copy_bytes_per_us", &m->copy_bytes_per_us, 1 },
        { "product_flops_per_us", &m->product_flops_per_us, 1 },
        { "near_latency_us", &m->near.latency_us, 0 },
        { "near_message_us", &m->near.message_us, 0 },
        { "near_bytes_per_us", &m->near.bytes_per_us, 0 },
        { "far_latency_us", &m->far.latency_us, 0 },
        { "far_message_us", &m->far.message_us, 0 },
        { "far_bytes_per_us", &m->far.bytes_per_us, 0 },
    };
    memcpy(figures, all, sizeof(all));
}

/* Either all figures of a link are known or none. */
static bool is_link(const weft_link *link)
{
    const double least = 1e-3;
    return !weft_link_known(link) ||
           (link->latency_us >= least && link->message_us >= least && link->bytes_per_us >= least);
}

bool weft_machine_possible(const weft_machine *machine)
{
    weft_machine copy = *machine;
    figure figures[NUM_FIGURES];
    figures_of(&copy, figures);
    for (int i = 0; i < NUM_FIGURES; i++) {
        if (!(*figures[i].value >= figures[i].least && *figures[i].value <= largest_figure)) {
            return false;
        }
    }
    return is_link(&machine->near) && is_link(&machine->far);
}

/* Without the formats for real numbers: the program's locale may use a comma. */
enum { FRACTION_DIGITS = 3, FRACTIONS = 1000 };

bool weft_machine_write_figure(FILE *file, const char *name, double value)
{
    long long fractions = llround(value * FRACTIONS);
    return fprintf(file, "%s %lld.%0*lld\n", name, fractions / FRACTIONS, FRACTION_DIGITS,
                   fractions % FRACTIONS) > 0;
}

bool weft_machine_write_figures(const weft_machine *machine, FILE *file)
{
    weft_machine copy = *machine;
    figure figures[NUM_FIGURES];
    figures_of(&copy, figures);
    bool written = weft_machine_possible(machine) && fprintf(file, "weft-machine %d\n", VERSION) > 0;
    for (int i = 0; i < NUM_FIGURES && written; i++) {
        written = weft_machine_write_figure(file, figures[i].name, *figures[i].value);
    }
    return written;
}

bool weft_machine_write(const weft_machine *machine, FILE *file)
{
    return weft_machine_write_figures(machine, file) && fprintf(file, "end\n") > 0 && fflush(file) == 0;
}

/* "12.345": digits, a point, and three digits. */
static bool parse_figure(const char *text, double *value)
{
    size_t whole = strspn(text, "0123456789");
    size_t fraction = text[whole] == '.' ? strspn(text + whole + 1, "0123456789") : 0;
    enum { MAX_DIGITS = 9 };
    if (whole == 0 || whole > MAX_DIGITS || fraction != FRACTION_DIGITS ||
        text[whole + 1 + fraction] != '\0') {
        return false;
    }
    int64_t fractions = 0;
    for (const char *c = text; *c != '\0'; c++) {
        fractions = *c == '.' ? fractions : 10 * fractions + (*c - '0');
    }
    *value = (double)fractions / FRACTIONS;
    return true;
}

bool weft_machine_read_figures(FILE *file, weft_machine *machine)
{
    weft_machine read = { 0 };
    figure figures[NUM_FIGURES];
    figures_of(&read, figures);
    int version = 0;
    if (fscanf(file, "weft-machine %d", &version) != 1 || version != VERSION) {
        return false;
    }
    char name[64], number[64];
    for (int i = 0; i < NUM_FIGURES; i++) {
        if (fscanf(file, "%63s %63s", name, number) != 2 || strcmp(name, figures[i].name) != 0 ||
            !parse_figure(number, figures[i].value)) {
            return false;
        }
    }
    if (!weft_machine_possible(&read)) {
        return false;
    }
    *machine = read;
    return true;
}

bool weft_machine_read(FILE *file, weft_machine *machine)
{
    weft_machine read;
    char end[8];
    if (!weft_machine_read_figures(file, &read) || fscanf(file, "%7s", end) != 1 || strcmp(end, "end") != 0) {
        return false;
    }
    *machine = read;
    return true;
}
