/* weft-plan: shows the redistribution from one layout to another; with --op, the sharding of a call. Needs
 * neither MPI nor StarPU and allocates no tensor: the world is fake, with as many ranks as the meshes
 * need. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "weft_plan.h"

/* Number of boxes in a list before the rest is only counted. */
enum { SHOWN_BOXES = 20 };

static const char usage[] =
    "Usage: weft-plan --mesh SIZES --shape SIZES --from PLACEMENTS --to PLACEMENTS [OPTION...]\n"
    "       weft-plan --mesh SIZES --op OPERATION --input SHAPE:PLACEMENTS[:TYPE]... [OPTION...]\n"
    "Shows how a distributed tensor gets from one layout to another: the stages, what one rank receives\n"
    "and sends, and how much moves in all. With --op: the strategies of a call, what they cost, which is\n"
    "chosen and why, and how the inputs get there. Nothing is allocated or moved.\n"
    "\n"
    "  --mesh 2x2           the mesh of the source, and of the destination unless --to-mesh says otherwise\n"
    "  --shape 5x3          of the global tensor; sizes may be 0; \"scalar\" or \"\" for no dimensions\n"
    "  --from S0,S0         one placement per mesh dimension: R, S0, S0=, S0{3,1}, P, P(max), ...\n"
    "  --to R,R             the same, on the destination's mesh\n"
    "  --to-mesh 4          the destination's mesh; ranks are counted from 0 in both\n"
    "  --dtype f32          f64, f32, bf16, f16, i64, i32, u8, bool, c64 or c128; f32 if not given\n"
    "  --rank K             the rank whose receives and sends are shown; 0 if not given\n"
    "  --local-ranks N      ranks per process; 1 if not given\n"
    "  --algorithm auto     how a box gets to several ranks: auto (the cheapest), direct, chain, tree or "
    "once\n"
    "  --json               one object instead of a page; with --rank also the rank's receives and sends\n"
    "  -h, --help           this text\n"
    "\n"
    "  --op mk,kn->mn       a rule (docs/operations.md), or the name of an operation whose rule is static\n"
    "  --input 64x32:S0,R   an input: shape, placements on --mesh, and its type, f32 if not given; once for "
    "each\n"
    "  --rule N             which of the operation's rules; the first of as many inputs if not given\n"
    "  --sizes 4x3          sizes of the letters that no input has as a dimension of its own\n"
    "  --leading N          dimensions of the first run, of an operand that has two\n"
    "  --type f32           of the output, where the call says it; of a rule, if not that of input 0\n"
    "  --halo h:1,1         of a rule with h~: how many indices before and after an index of h are read, "
    "then\n"
    "                       a stride and a dilation (h:1,1,2,1); of input 1: 1h:1,1; once for each \"~\"\n"
    "  --linear each        how a rule lets sums pass: none (if not given), jointly (a + b) or each (a b)\n"
    "  and --mesh, --local-ranks, --algorithm and --json as above.\n"
    "\n"
    "bytes_total, bytes_in_max and the like count what moves between different ranks, over all stages.\n"
    "Exit status: 0, or 2 when an option is wrong.\n";

/* ---- options ------------------------------------------------------------------------------------------- */

typedef struct options {
    const char *mesh, *to_mesh, *shape, *dtype, *from, *to, *rank, *local_ranks, *algorithm;
    plan_op_options op; /* options of --op alone */
    bool json;
} options;

/* Parsed options. Equal meshes are the same mesh. */
typedef struct request {
    weft_mesh_impl *mesh, *to_mesh;
    plan_sizes shape;
    weft_dtype dtype;
    weft_placement from[WEFT_MAX_DIMS], to[WEFT_MAX_DIMS];
    int rank;
    weft_topology topology;
    weft_algorithm algorithm;
} request;

static void add_halo(plan_op_options *op, const char *text)
{
    if (op->num_halos == WEFT_MAX_HALOS) {
        plan_refuse("--halo", "more than %d", WEFT_MAX_HALOS);
    }
    op->halos[op->num_halos++] = text;
}

static void add_input(plan_op_options *op, const char *text)
{
    if (op->num_inputs == PLAN_MAX_INPUTS) {
        plan_refuse("--input", "more than %d", PLAN_MAX_INPUTS);
    }
    op->inputs[op->num_inputs++] = text;
}

/* Checks that options that belong together are given together. */
static void check_options(const options *given)
{
    const plan_op_options *op = &given->op;
    const char *of_op[] = { "--rule",    op->rule,      "--sizes", op->sizes,   "--leading",
                            op->leading, "--type",      op->type,  "--linear",  op->linear,
                            "--input",   op->inputs[0], "--halo",  op->halos[0] };
    const char *of_plan[] = { "--shape", given->shape, "--from",     given->from, "--to",
                              given->to, "--dtype",    given->dtype, "--to-mesh", given->to_mesh,
                              "--rank",  given->rank,  "--halo",     NULL };
    const char *const *others = op->op != NULL ? of_plan : of_op;
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(of_op); i += 2) {
        if (others[i + 1] != NULL) {
            plan_refuse(others[i], op->op != NULL ? "not with --op" : "not without --op");
        }
    }
    const char *needed[] = { "--mesh", given->mesh, "--shape", given->shape,
                             "--from", given->from, "--to",    given->to };
    size_t count = op->op != NULL ? 2 : WEFT_ARRAY_SIZE(needed);
    for (size_t i = 0; i < count; i += 2) {
        if (needed[i + 1] == NULL) {
            plan_refuse(needed[i], "missing");
        }
    }
}

static options read_options(int argc, char **argv)
{
    enum { FIRST = 256, JSON = 300, INPUT, HALO };
    options given = { .local_ranks = "1", .algorithm = "auto" };
    const struct {
        const char *name, **text;
    } texts[] = { { "mesh", &given.mesh },          { "to-mesh", &given.to_mesh },
                  { "shape", &given.shape },        { "dtype", &given.dtype },
                  { "from", &given.from },          { "to", &given.to },
                  { "rank", &given.rank },          { "local-ranks", &given.local_ranks },
                  { "algorithm", &given.algorithm }, { "op", &given.op.op },
                  { "rule", &given.op.rule },       { "sizes", &given.op.sizes },
                  { "leading", &given.op.leading }, { "type", &given.op.type },
                  { "linear", &given.op.linear } };
    struct option known[WEFT_ARRAY_SIZE(texts) + 5] = { { "json", no_argument, NULL, JSON },
                                                        { "input", required_argument, NULL, INPUT },
                                                        { "halo", required_argument, NULL, HALO },
                                                        { "help", no_argument, NULL, 'h' } };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(texts); i++) {
        known[4 + i] = (struct option){ texts[i].name, required_argument, NULL, FIRST + (int)i };
    }
    int option;
    while ((option = getopt_long(argc, argv, "h", known, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(0);
        } else if (option == JSON) {
            given.json = true;
        } else if (option == INPUT) {
            add_input(&given.op, optarg);
        } else if (option == HALO) {
            add_halo(&given.op, optarg);
        } else if (option == '?') {
            exit(2); /* getopt_long() has printed a message */
        } else {
            *texts[option - FIRST].text = optarg;
        }
    }
    if (optind < argc) {
        plan_refuse(argv[optind], "not an option");
    }
    check_options(&given);
    return given;
}

static request understand(const options *given)
{
    request r = { .dtype = plan_read_dtype("--dtype", given->dtype == NULL ? "f32" : given->dtype),
                  .algorithm = plan_read_algorithm(given->algorithm) };
    r.mesh = r.to_mesh = plan_read_mesh("--mesh", given->mesh);
    if (given->to_mesh != NULL) {
        r.to_mesh = plan_read_mesh("--to-mesh", given->to_mesh);
        if (weft_mesh_same(r.mesh, r.to_mesh)) {
            weft_mesh_delete(r.to_mesh);
            r.to_mesh = r.mesh;
        }
    }
    r.shape = plan_read_shape("--shape", given->shape, r.dtype);
    plan_read_placements("--from", given->from, r.mesh, r.shape.count, r.shape.items, r.from);
    plan_read_placements("--to", given->to, r.to_mesh, r.shape.count, r.shape.items, r.to);
    int64_t num_ranks = weft_max_i64(r.mesh->num_ranks, r.to_mesh->num_ranks);
    r.rank = given->rank == NULL ? 0 : (int)plan_read_number("--rank", given->rank, 0, num_ranks - 1);
    r.topology =
        plan_make_topology(num_ranks, plan_read_number("--local-ranks", given->local_ranks, 1, PLAN_MAX_RANKS));
    return r;
}

static void request_free(request *r)
{
    if (r->to_mesh != r->mesh) {
        weft_mesh_delete(r->to_mesh);
    }
    weft_mesh_delete(r->mesh);
    free((int *)r->topology.first_rank);
}

/* ---- planning ------------------------------------------------------------------------------------------ */

/* The rank's transfers in one stage. */
typedef struct stage_moves {
    weft_transfers receives, sends;
} stage_moves;

/* The plan of one rank. */
typedef struct rank_plan {
    weft_layout_table *table;
    weft_plan plan;
    stage_moves stages[WEFT_MAX_STAGES];
    double us; /* time of the plan and of the rank's transfers */
} rank_plan;

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static const weft_layout *intern(weft_layout_table *table, const request *r, const weft_mesh_impl *mesh,
                                 const weft_placement placements[])
{
    const weft_layout *layout =
        weft_layout_intern(table, mesh, placements, r->shape.count, r->shape.items, r->dtype);
    if (layout == NULL) {
        plan_out_of_memory();
    }
    return layout;
}

static rank_plan plan_rank(const request *r)
{
    weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
    cost.algorithm = r->algorithm;
    rank_plan p = { .table = weft_layout_table_new((weft_panel_policy)WEFT_PANEL_POLICY_DEFAULT) };
    if (p.table == NULL) {
        plan_out_of_memory();
    }
    const weft_layout *from = intern(p.table, r, r->mesh, r->from),
                      *to = intern(p.table, r, r->to_mesh, r->to);
    char why[400] = "";
    double start = now_us();
    weft_status status = weft_plan_make(p.table, &r->topology, &cost, from, to, &p.plan, why, sizeof(why));
    if (status == WEFT_ERR_NOMEM) {
        plan_out_of_memory();
    }
    if (status != WEFT_OK) {
        plan_refuse(status == WEFT_ERR_DTYPE ? "--dtype" : "--to", "%s", why);
    }
    for (int i = 0; i < p.plan.num_stages; i++) {
        const weft_stage *stage = &p.plan.stages[i];
        if (weft_stage_receives(stage, &r->topology, r->rank, &p.stages[i].receives) != WEFT_OK ||
            weft_stage_sends(stage, &r->topology, r->rank, &p.stages[i].sends) != WEFT_OK) {
            plan_out_of_memory();
        }
    }
    p.us = now_us() - start;
    return p;
}

static void rank_plan_free(rank_plan *p)
{
    for (int i = 0; i < p->plan.num_stages; i++) {
        weft_transfers_free(&p->stages[i].receives);
        weft_transfers_free(&p->stages[i].sends);
    }
    weft_layout_table_delete(p->table);
}

static int by_value(const void *a, const void *b)
{
    double p = *(const double *)a, q = *(const double *)b;
    return p < q ? -1 : p > q;
}

/* Median of several runs, each from an empty table of layouts. */
static double median_plan_us(const request *r)
{
    enum { TIMES = 9 };
    double us[TIMES];
    for (int i = 0; i < TIMES; i++) {
        rank_plan p = plan_rank(r);
        us[i] = p.us;
        rank_plan_free(&p);
    }
    qsort(us, TIMES, sizeof(us[0]), by_value);
    return us[TIMES / 2];
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static void print_moves(const request *r, const char *verb, const char *preposition,
                        const weft_transfers *moves)
{
    int64_t size = (int64_t)weft_dtype_size(r->dtype), bytes = 0;
    for (size_t i = 0; i < moves->count; i++) {
        bytes +=
            moves->items[i].peer == r->rank ? 0 : weft_box_count(r->shape.count, &moves->items[i].box) * size;
    }
    printf("  rank %d %s %zu %s; %lld bytes of them %s other ranks\n", r->rank, verb, moves->count,
           moves->count == 1 ? "box" : "boxes", (long long)bytes, preposition);
    for (size_t i = 0; i < moves->count && i < SHOWN_BOXES; i++) {
        const weft_transfer *move = &moves->items[i];
        printf("    %s %-7d [", preposition, move->peer);
        for (int d = 0; d < r->shape.count; d++) {
            printf("%s%lld:%lld", d > 0 ? ", " : "", (long long)move->box.offset[d],
                   (long long)(move->box.offset[d] + move->box.extent[d]));
        }
        printf("]  %lld bytes%s%s\n", (long long)(weft_box_count(r->shape.count, &move->box) * size),
               move->peer == r->rank ? ", itself" : "", move->forwarded ? ", forwarded" : "");
    }
    if (moves->count > SHOWN_BOXES) {
        printf("    ... and %zu more\n", moves->count - SHOWN_BOXES);
    }
}

/* "all-gather along 0, 1" */
static const char *kind_text(const weft_stage *stage, char *text, size_t size)
{
    bool along[WEFT_MAX_DIMS];
    weft_text written = weft_text_in(text, size);
    weft_text_add(&written, "%s", weft_stage_kind_name(weft_stage_kind_of(stage, along)));
    const char *between = " along ";
    for (int m = 0; m < stage->from->mesh->ndim; m++) {
        if (along[m]) {
            weft_text_add(&written, "%s%d", between, m);
            between = ", ";
        }
    }
    return text;
}

static void print_stage(const request *r, const weft_stage *stage, const stage_moves *moves, int number)
{
    char from[400], to[400], how[60] = "move", kind[80];
    if (stage->algorithm != WEFT_DIRECT) {
        snprintf(how, sizeof(how), "move (%s)", weft_algorithm_name(stage->algorithm));
    } else if (stage->reduces && stage->scale != 1.0) {
        snprintf(how, sizeof(how), "reduce (%s, times %g)", weft_reduce_op_name(stage->op), stage->scale);
    } else if (stage->reduces) {
        snprintf(how, sizeof(how), "reduce (%s)", weft_reduce_op_name(stage->op));
    }
    printf("\nstage %d: %s, %s\n  from %s\n  to   %s\n", number, how, kind_text(stage, kind, sizeof(kind)),
           weft_layout_format(stage->from, from, sizeof(from)),
           weft_layout_format(stage->to, to, sizeof(to)));
    print_moves(r, "receives", "from", &moves->receives);
    print_moves(r, "sends", "to", &moves->sends);
}

/* A move in several stages, made in one: what more bytes are the price of. */
typedef struct one_stage {
    bool is_told;
    double us;
    weft_plan_statistics statistics;
} one_stage;

static one_stage in_one_stage(const request *r, const weft_plan *plan)
{
    one_stage one = { .is_told = plan->num_stages > 1 && !plan->from->has_partial };
    if (one.is_told) {
        weft_cost_model cost = WEFT_COST_MODEL_DEFAULT;
        weft_plan direct = { .from = plan->from, .to = plan->to, .num_stages = 1,
                             .stages = { { .from = plan->from, .to = plan->to, .scale = 1.0 } } };
        one.us = weft_stage_cost(&direct.stages[0], &r->topology, &cost);
        if (weft_plan_measure(&direct, &r->topology, &one.statistics) != WEFT_OK) {
            plan_out_of_memory();
        }
    }
    return one;
}

static void print_page(const request *r, const rank_plan *p, const weft_plan_statistics *s, const one_stage *one,
                       double plan_us)
{
    char text[400];
    printf("from       %s\n", weft_layout_format(p->plan.from, text, sizeof(text)));
    printf("to         %s\n", weft_layout_format(p->plan.to, text, sizeof(text)));
    printf("algorithm  %s, %d %s\n", p->plan.algorithm, p->plan.num_stages,
           p->plan.num_stages == 1 ? "stage" : "stages");
    for (int i = 0; i < p->plan.num_stages; i++) {
        print_stage(r, &p->plan.stages[i], &p->stages[i], i + 1);
    }
    printf("\nbetween all %lld ranks%s\n", (long long)s->ranks,
           s->exact ? "" : " (estimated from an even share)");
    printf("  bytes in all               %lld\n", (long long)s->bytes_total);
    printf("  most bytes into a rank     %lld; no algorithm does with less than %lld\n",
           (long long)s->bytes_in_max, (long long)s->lower_bound_bytes_in_max);
    printf("  most bytes out of a rank   %lld\n", (long long)s->bytes_out_max);
    printf("  most messages of a rank    %lld\n", (long long)s->messages_max);
    printf("  predicted                  %.1f us on the slowest rank\n", p->plan.predicted_us);
    if (one->is_told) {
        printf("  in one stage               %.1f us, %lld bytes in all, %lld into a rank, %lld messages\n", one->us,
               (long long)one->statistics.bytes_total, (long long)one->statistics.bytes_in_max,
               (long long)one->statistics.messages_max);
    }
    printf("  one rank's plan takes      %.1f us\n", plan_us);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void print_json_sizes(const char *name, int count, const int64_t items[])
{
    printf("\"%s\": [", name);
    for (int d = 0; d < count; d++) {
        printf("%s%lld", d > 0 ? ", " : "", (long long)items[d]);
    }
    printf("]");
}

/* The rank's receives, or sends, in all stages (counted from 0). */
static void print_json_moves(const request *r, const rank_plan *p, const char *name, bool receives)
{
    printf(",\n  \"%s\": [", name);
    bool first = true;
    for (int stage = 0; stage < p->plan.num_stages; stage++) {
        const weft_transfers *moves = receives ? &p->stages[stage].receives : &p->stages[stage].sends;
        for (size_t i = 0; i < moves->count; i++) {
            printf("%s\n    {\"stage\": %d, \"peer\": %d, ", first ? "" : ",", stage, moves->items[i].peer);
            print_json_sizes("offset", r->shape.count, moves->items[i].box.offset);
            printf(", ");
            print_json_sizes("extent", r->shape.count, moves->items[i].box.extent);
            printf(", \"forwarded\": %s}", moves->items[i].forwarded ? "true" : "false");
            first = false;
        }
    }
    printf("%s]", first ? "" : "\n  ");
}

static void print_json(const request *r, const rank_plan *p, const weft_plan_statistics *s, const one_stage *one,
                       double plan_us, bool with_rank)
{
    printf("{\n");
    printf("  \"ranks\": %lld,\n", (long long)s->ranks);
    printf("  \"bytes_total\": %lld,\n", (long long)s->bytes_total);
    printf("  \"bytes_in_max\": %lld,\n", (long long)s->bytes_in_max);
    printf("  \"bytes_out_max\": %lld,\n", (long long)s->bytes_out_max);
    printf("  \"lower_bound_bytes_in_max\": %lld,\n", (long long)s->lower_bound_bytes_in_max);
    printf("  \"messages_max\": %lld,\n", (long long)s->messages_max);
    printf("  \"algorithm\": \"%s\",\n", p->plan.algorithm);
    printf("  \"stages\": %d,\n", p->plan.num_stages);
    printf("  \"stage_algorithms\": [");
    for (int i = 0; i < p->plan.num_stages; i++) {
        printf("%s\"%s\"", i > 0 ? ", " : "", weft_algorithm_name(p->plan.stages[i].algorithm));
    }
    printf("],\n");
    printf("  \"stage_kinds\": [");
    for (int i = 0; i < p->plan.num_stages; i++) {
        bool along[WEFT_MAX_DIMS];
        weft_stage_kind kind = weft_stage_kind_of(&p->plan.stages[i], along);
        printf("%s\"%s\"", i > 0 ? ", " : "", weft_stage_kind_name(kind));
    }
    printf("],\n");
    printf("  \"predicted_us\": %.3f,\n", p->plan.predicted_us);
    if (one->is_told) {
        printf("  \"one_stage_us\": %.3f,\n  \"one_stage_bytes_total\": %lld,\n  \"one_stage_bytes_in_max\": %lld,\n", one->us,
               (long long)one->statistics.bytes_total, (long long)one->statistics.bytes_in_max);
    }
    printf("  \"plan_us\": %.3f,\n", plan_us);
    printf("  \"exact\": %s", s->exact ? "true" : "false");
    if (with_rank) {
        printf(",\n  \"rank\": %d", r->rank);
        print_json_moves(r, p, "receives", true);
        print_json_moves(r, p, "sends", false);
    }
    printf("\n}\n");
}

int main(int argc, char **argv)
{
    options given = read_options(argc, argv);
    if (given.op.op != NULL) {
        given.op.mesh = given.mesh;
        given.op.local_ranks = given.local_ranks;
        given.op.algorithm = given.algorithm;
        given.op.json = given.json;
        return plan_explain(&given.op);
    }
    request r = understand(&given);
    double plan_us = median_plan_us(&r);
    rank_plan p = plan_rank(&r);
    weft_plan_statistics statistics;
    if (weft_plan_measure(&p.plan, &r.topology, &statistics) != WEFT_OK) {
        plan_out_of_memory();
    }
    if (statistics.bytes_total == INT64_MAX) {
        plan_refuse("--shape", "\"%s\": what all ranks receive together is more than 2^63 bytes", given.shape);
    }
    one_stage one = in_one_stage(&r, &p.plan);
    if (given.json) {
        print_json(&r, &p, &statistics, &one, plan_us, given.rank != NULL);
    } else {
        print_page(&r, &p, &statistics, &one, plan_us);
    }
    rank_plan_free(&p);
    request_free(&r);
    return fflush(stdout) == 0 ? 0 : 1;
}
