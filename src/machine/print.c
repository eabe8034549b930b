/* Prints the figures of a machine. */
#include <stdio.h>

#include "machine/machine.h"

static void print_figure(FILE *file, const char *name, double measured, double used, const char *unit)
{
    fprintf(file, "  %-26s %10.4g %-8s taken for %.4g\n", name, measured, unit, used);
}

static void print_link(FILE *file, const char *name, const weft_link *measured, const weft_link *used)
{
    if (!weft_link_known(measured)) {
        fprintf(file, "  %s: not known\n", name);
        return;
    }
    fprintf(file, "  %s:\n", name);
    print_figure(file, "  latency", measured->latency_us, used->latency_us, "us");
    print_figure(file, "  a message", measured->message_us, used->message_us, "us");
    print_figure(file, "  rate", measured->bytes_per_us, used->bytes_per_us, "MB/s");
}

static void print_consequences(FILE *file, const weft_panel_policy *p, const weft_message_sizes *messages)
{
    if (p->forced_rows > 0) {
        fprintf(file, "panels: of %lld rows (WEFT_PANEL_ROWS)\n", (long long)p->forced_rows);
    } else if (p->target_bytes > 0) {
        fprintf(file, "panels: of at least %lld bytes (WEFT_PANEL_BYTES), at most about %lld per shard\n",
                (long long)p->target_bytes, (long long)p->max_panels);
    } else if (p->whole_bytes > 0) {
        fprintf(file, "panels: for devices, the whole shard up to %lld bytes, else about %lld per shard at most", (long long)p->whole_bytes,
                (long long)p->max_panels);
        if (p->least_panels > 1) {
            fprintf(file, "; at least %lld per shard, of at least %lld bytes", (long long)p->least_panels, (long long)p->min_bytes);
        }
        fputc('\n', file);
    } else {
        fprintf(file,
                "panels: sqrt(bytes x %.4g us / %.4g us) per shard, at most about %lld; of at least %lld "
                "bytes, and %lld "
                "rows or a quarter of the shard\n",
                p->byte_us, p->panel_us, (long long)p->max_panels, (long long)p->min_bytes,
                (long long)p->min_rows);
    }
    fprintf(file, "messages: of at most %lld bytes, about %lld of them under way to a process\n",
            (long long)messages->max_bytes, (long long)messages->window_bytes);
}

void weft_machine_print(const weft_machine_facts *facts, FILE *file)
{
    const weft_machine *measured = facts->measured, *used = facts->used;
    fprintf(file, "machine (%s%s%s)\n", facts->source, facts->path != NULL ? ": " : "",
            facts->path != NULL ? facts->path : "");
    print_figure(file, "a task", measured->task_us, used->task_us, "us");
    print_figure(file, "a copy by one worker", measured->copy_bytes_per_us, used->copy_bytes_per_us, "MB/s");
    print_figure(file, "a product by one worker", measured->product_flops_per_us, used->product_flops_per_us,
                 "MFLOP/s");
    print_link(file, "between two processes of one machine", &measured->near, &used->near);
    print_link(file, "between two machines", &measured->far, &used->far);
    fprintf(file, "world: %d processes, %d machines\n", facts->spread.processes, facts->spread.machines);
    print_consequences(file, facts->panels, facts->messages);
}
