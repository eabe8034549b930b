/* The order of calls by rows: those that are fused together come together. */
#include <stdlib.h>
#include <string.h>

#include "graph/fuse/fuse.h"

/* Calls that follow each other and go by rows: none of them needs a transfer, so that any order that keeps their
 * dependencies is right. */
typedef struct arranging {
    weft_cluster_building *b;
    weft_graph_trace *trace;
    int first, end;    /* the calls are [first, end) */
    int num_groups;
    int *groups;       /* by call, from `first`: groups are executed in the order of their numbers */
    int *leaders;      /* by group: its first call */
    int *needs;        /* by group: the last other group that it depends on; -1: none */
    int *joined;       /* by group: the earlier group that it was joined to; -1: none */
    int *made, *read;  /* by value: the group that makes it, the last group that reads it; -1: none of these calls */
    int *newest_read;  /* by value: the newest of its `reads`; -1: none */
    weft_vec reads;    /* one_read: of the calls up to now */
} arranging;

typedef struct one_read {
    int call;
    int older; /* another one of the same value; -1: none */
} one_read;

static int max(int a, int b)
{
    return a > b ? a : b;
}

/* The group that two groups belong to since they were joined. */
static int group_of(const arranging *a, int group)
{
    while (group >= 0 && a->joined[group] >= 0) {
        int next = a->joined[a->joined[group]];
        a->joined[group] = next >= 0 ? next : a->joined[group]; /* shorter for the next one who asks */
        group = a->joined[group];
    }
    return group;
}

/* The last group, but for one, with a call that reads a value; -1: none. */
static int find_reader(const arranging *a, int value, int but)
{
    const one_read *reads = a->reads.items;
    int last = -1;
    for (int i = a->newest_read[value]; i >= 0; i = reads[i].older) {
        int group = group_of(a, a->groups[reads[i].call - a->first]);
        last = group != but ? max(last, group) : last;
    }
    return last;
}

/* The last group, but for one, that a call depends on; -1: none. */
static int find_earliest(const arranging *a, int number, int but)
{
    const weft_graph_node *node = weft_trace_node(a->trace, (size_t)number);
    int earliest = -1;
    for (int i = 0; i < node->num_inputs; i++) {
        int made = group_of(a, a->made[node->inputs[i]]);
        bool changes = i < node->num_outputs && weft_call_changes(node->call, i);
        earliest = made != but ? max(earliest, made) : earliest;
        earliest = changes ? max(earliest, find_reader(a, node->inputs[i], but)) : earliest;
    }
    return earliest;
}

/* The groups with which a call shares values and rows. Returns their number. */
static int find_candidates(const arranging *a, const weft_lowered *call, int candidates[])
{
    int count = 0;
    for (int i = 0; i < call->num_operands; i++) {
        const weft_fused_operand *operand = &call->operands[i];
        int value = a->b->takes[operand->value] < 0 ? operand->value : a->b->takes[operand->value]; /* before the call */
        int groups[] = { group_of(a, a->made[value]), group_of(a, a->read[value]) };
        for (int k = 0; k < 2 && operand->moves; k++) {
            bool fits = groups[k] >= 0 &&
                        weft_layouts_share_rows(weft_fused_layout(a->b, &a->b->calls[a->leaders[groups[k]]].operands[0]),
                                                weft_fused_layout(a->b, &call->operands[0]));
            if (fits) {
                candidates[count++] = groups[k];
            }
        }
    }
    return count;
}

/* The last group with which a call shares a value and its rows, if it may belong to it; a new one. Groups that the call
 * connects are joined, if the later one depends on none after the earlier one. */
static int choose_group(const arranging *a, int number)
{
    int candidates[2 * WEFT_MAX_FUSED_OPERANDS], chosen = -1;
    int count = find_candidates(a, &a->b->calls[number], candidates);
    int earliest = find_earliest(a, number, -1);
    for (int i = 0; i < count; i++) {
        chosen = candidates[i] >= earliest ? max(chosen, candidates[i]) : chosen;
    }
    if (chosen < 0) {
        return a->num_groups;
    }
    for (int i = 0; i < count; i++) {
        int other = group_of(a, candidates[i]);
        if (other < chosen && a->needs[chosen] <= other && find_earliest(a, number, chosen) <= other) {
            int needs = a->needs[chosen] == other ? other - 1 : a->needs[chosen];
            a->joined[chosen] = other;
            a->needs[other] = max(a->needs[other], needs);
            chosen = other;
        }
    }
    return chosen;
}

/* There is room for all reads. */
static void add_read(arranging *a, int number, int value)
{
    one_read *reads = a->reads.items;
    reads[a->reads.count] = (one_read){ number, a->newest_read[value] };
    a->newest_read[value] = (int)a->reads.count++;
}

static void add_to_group(arranging *a, int number, int group)
{
    const weft_graph_node *node = weft_trace_node(a->trace, (size_t)number);
    a->groups[number - a->first] = group;
    if (group == a->num_groups) {
        a->leaders[group] = number;
        a->needs[group] = a->joined[group] = -1;
        a->num_groups++;
    }
    a->needs[group] = max(a->needs[group], find_earliest(a, number, group));
    for (int i = 0; i < node->num_inputs; i++) {
        a->read[node->inputs[i]] = max(group_of(a, a->read[node->inputs[i]]), group);
        add_read(a, number, node->inputs[i]);
    }
    for (int i = 0; i < node->num_outputs; i++) {
        a->made[node->outputs[i]] = group;
    }
}

static void forget_values(arranging *a)
{
    a->reads.count = 0;
    for (int n = a->first; n < a->end; n++) {
        const weft_graph_node *node = weft_trace_node(a->trace, (size_t)n);
        for (int i = 0; i < node->num_inputs + node->num_outputs; i++) {
            a->made[node->inputs[i]] = a->read[node->inputs[i]] = a->newest_read[node->inputs[i]] = -1;
        }
    }
}

/* places[i]: of the call `first` + i; groups follow each other, and the calls of each keep their order. ends[]: by group. */
static void find_places(const arranging *a, int ends[], int places[])
{
    memset(ends, 0, ((size_t)a->num_groups + 1) * sizeof(int));
    for (int i = 0; i < a->end - a->first; i++) {
        ends[group_of(a, a->groups[i]) + 1]++;
    }
    for (int group = 0; group < a->num_groups; group++) {
        ends[group + 1] += ends[group];
    }
    for (int i = 0; i < a->end - a->first; i++) {
        places[i] = ends[group_of(a, a->groups[i])]++;
    }
}

/* Moves nodes and calls to their places. False: no memory. */
static bool reorder(const arranging *a)
{
    size_t count = (size_t)(a->end - a->first);
    weft_graph_node *nodes = malloc(count * sizeof(*nodes));
    weft_lowered *calls = malloc(count * sizeof(*calls));
    int *places = malloc((2 * count + 1) * sizeof(int));
    bool done = nodes != NULL && calls != NULL && places != NULL;
    if (done) {
        find_places(a, places + count, places);
        for (size_t i = 0; i < count; i++) {
            nodes[places[i]] = *weft_trace_node(a->trace, (size_t)a->first + i);
            calls[places[i]] = a->b->calls[(size_t)a->first + i];
        }
        memcpy(weft_trace_node(a->trace, (size_t)a->first), nodes, count * sizeof(*nodes));
        memcpy(&a->b->calls[a->first], calls, count * sizeof(*calls));
    }
    free(nodes);
    free(calls);
    free(places);
    return done;
}

static bool arrange(arranging *a)
{
    a->num_groups = 0;
    for (int n = a->first; n < a->end; n++) {
        add_to_group(a, n, choose_group(a, n));
    }
    forget_values(a);
    return a->num_groups == 1 || reorder(a);
}

/* False: no memory. */
static bool make_room_for_reads(arranging *a)
{
    size_t count = 0;
    for (size_t n = 0; n < a->trace->nodes.count; n++) {
        count += (size_t)weft_trace_node(a->trace, n)->num_inputs;
    }
    return weft_vec_reserve(&a->reads, count, sizeof(one_read));
}

bool weft_fuse_arrange(weft_cluster_building *b, weft_graph_trace *trace)
{
    int count = (int)trace->nodes.count;
    size_t num_values = trace->values.count + 1;
    arranging a = { .b = b, .trace = trace };
    a.groups = malloc(((size_t)count + 1) * 4 * sizeof(int));
    a.made = malloc(num_values * 3 * sizeof(int));
    bool done = a.groups != NULL && a.made != NULL && make_room_for_reads(&a);
    if (done) {
        a.leaders = a.groups + count + 1;
        a.needs = a.leaders + count + 1;
        a.joined = a.needs + count + 1;
        a.read = a.made + num_values;
        a.newest_read = a.read + num_values;
        memset(a.made, -1, num_values * 3 * sizeof(int));
    }
    for (int first = 0, end; first < count && done; first = end) {
        end = first + 1;
        while (end < count && b->calls[first].fuses && b->calls[end].fuses) {
            end++;
        }
        a.first = first;
        a.end = end;
        done = end - first < 3 || arrange(&a);
    }
    free(a.groups);
    free(a.made);
    weft_vec_free(&a.reads);
    return done;
}
