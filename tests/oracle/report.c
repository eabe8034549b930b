/* Results of the cases as a page of Markdown. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "oracle.h"

enum { MAX_OPERATIONS = 512, MAX_KINDS = 256, MAX_REFUSALS = 512, KIND_TEXT = 48 };

/* ---- what is counted ----------------------------------------------------------------------------------- */

typedef struct operation_count {
    const char *name; /* of the table: lives as long as the program */
    long cases, agree, differ, refused, gradients;
    double ulps, gradient_ulps;
} operation_count;

/* Differences of outputs along a mesh dimension. */
typedef struct kind_count {
    char inputs[KIND_TEXT], ours[KIND_TEXT], torch[KIND_TEXT];
    bool narrow; /* addends of 16 bits are reduced here */
    long times;
    const char *example;
} kind_count;

typedef struct refusal_count {
    char text[160];
    long times;
    const char *example;
} refusal_count;

static operation_count operations[MAX_OPERATIONS];
static kind_count kinds[MAX_KINDS];
static refusal_count refusals[MAX_REFUSALS];
static int num_operations, num_kinds, num_refusals;

static operation_count *count_of(const oracle_operation *operation)
{
    for (int i = 0; i < num_operations; i++) {
        if (operations[i].name == operation->name) {
            return &operations[i];
        }
    }
    assert_true(num_operations < MAX_OPERATIONS);
    operations[num_operations].name = operation->name;
    return &operations[num_operations++];
}

static void count_kind(const char *inputs, const char *ours, const char *torch, bool narrow,
                       const char *example)
{
    int i = 0;
    while (i < num_kinds && (strcmp(kinds[i].inputs, inputs) != 0 || strcmp(kinds[i].ours, ours) != 0 ||
                             strcmp(kinds[i].torch, torch) != 0 || kinds[i].narrow != narrow)) {
        i++;
    }
    assert_true(i < MAX_KINDS);
    if (i == num_kinds) {
        num_kinds++;
        snprintf(kinds[i].inputs, KIND_TEXT, "%s", inputs);
        snprintf(kinds[i].ours, KIND_TEXT, "%s", ours);
        snprintf(kinds[i].torch, KIND_TEXT, "%s", torch);
        kinds[i].narrow = narrow;
        kinds[i].example = example;
    }
    kinds[i].times++;
}

static void count_refusal(const char *text, const char *example)
{
    int i = 0;
    while (i < num_refusals && strcmp(refusals[i].text, text) != 0) {
        i++;
    }
    assert_true(i < MAX_REFUSALS);
    if (i == num_refusals) {
        num_refusals++;
        snprintf(refusals[i].text, sizeof(refusals[i].text), "%s", text);
        refusals[i].example = example;
    }
    refusals[i].times++;
}

/* ---- placements ---------------------------------------------------------------------------------------- */

static const char *kind_text(weft_placement p)
{
    return p.kind == WEFT_REPLICATE ? "Replicate" : p.kind == WEFT_SHARD ? "Shard" : "Partial";
}

static bool same(weft_placement a, weft_placement b)
{
    return a.kind == b.kind && (a.kind != WEFT_SHARD || a.dim == b.dim) &&
           (a.kind != WEFT_PARTIAL || a.op == b.op);
}

/* "Replicate, Shard": placements of the inputs along a mesh dimension, each kind once. */
static void inputs_text(const oracle_case *c, int mesh_dim, char text[KIND_TEXT])
{
    text[0] = '\0';
    for (int kind = WEFT_REPLICATE; kind <= WEFT_PARTIAL; kind++) {
        bool found = false;
        for (int i = 0; i < c->num_inputs; i++) {
            found |= (int)c->inputs[i].placements[mesh_dim].kind == kind;
        }
        size_t used = strlen(text);
        if (found) {
            snprintf(text + used, KIND_TEXT - used, "%s%s", used > 0 ? ", " : "",
                     kind_text((weft_placement){ .kind = (weft_placement_kind)kind }));
        }
    }
}

/* Sums of 16 bits are reduced in 32 bits and rounded once. */
static bool narrow(const oracle_case *c)
{
    return oracle_is_floating(c->outputs[0].dtype) && weft_dtype_size(c->outputs[0].dtype) == 2;
}

/* False: they differ. A mesh dimension of one rank makes no difference. */
static bool compare_placements(const oracle_case *c, const char *name, const weft_placement ours[],
                               const weft_placement torch[])
{
    bool agree = true;
    for (int m = 0; m < c->mesh_ndim; m++) {
        if (c->mesh_shape[m] == 1 || same(ours[m], torch[m])) {
            continue;
        }
        char inputs[KIND_TEXT], torch_kind[KIND_TEXT];
        inputs_text(c, m, inputs);
        snprintf(torch_kind, KIND_TEXT, "%s%s", ours[m].kind == torch[m].kind ? "another " : "",
                 kind_text(torch[m]));
        bool reduces = torch[m].kind == WEFT_PARTIAL && ours[m].kind != WEFT_PARTIAL;
        count_kind(inputs, kind_text(ours[m]), torch_kind, reduces && narrow(c), name);
        agree = false;
    }
    return agree;
}

void oracle_count(const oracle_file *file, const oracle_case *c, double ulps, weft_tensor *const out[])
{
    const oracle_operation *operation = oracle_find(c->operation);
    operation_count *count = count_of(operation);
    count->cases++;
    count->ulps = fmax(count->ulps, ulps);
    if (c->outputs[0].torch[0] == '!') {
        count->refused++;
        count_refusal(file->refusals[atoi(c->outputs[0].torch + 1)], operation->name);
        return;
    }
    bool agree = true;
    for (int i = 0; i < c->num_outputs; i++) {
        weft_placement torch[ORACLE_MESH_DIMS];
        if (weft_placements_parse(c->outputs[i].torch, c->mesh_ndim, torch) != WEFT_OK) {
            count_kind("any", "any", c->outputs[i].torch, false, operation->name);
            weft_clear_error();
            agree = false;
            continue;
        }
        agree &= compare_placements(c, operation->name, weft_tensor_placements(out[i]), torch);
    }
    count->agree += agree;
    count->differ += !agree;
}

void oracle_count_gradient(const oracle_case *c, double ulps)
{
    operation_count *count = count_of(oracle_find(c->operation));
    count->gradients++;
    count->gradient_ulps = fmax(count->gradient_ulps, ulps);
}

/* ---- reasons ------------------------------------------------------------------------------------------- */

enum { ANY_TYPE, NARROW };

static const struct {
    const char *ours, *torch;
    int types;
    const char *why;
} reasons[] = {
    { "Partial", "Replicate", ANY_TYPE,
      "PyTorch reduces at once; here the addends stay until their sum is needed" },
    { "Partial", "Shard", ANY_TYPE,
      "PyTorch reduces and scatters; here the addends stay until their sum is needed" },
    { "Partial", "another Partial", ANY_TYPE, "a sum here, where PyTorch has an average or something else" },
    { "Shard", "Replicate", ANY_TYPE,
      "PyTorch gathers or reduces for everyone; here the work is shared out" },
    { "Shard", "another Shard", ANY_TYPE,
      "several dimensions can be shared out; moves are estimated differently" },
    { "Replicate", "Shard", ANY_TYPE,
      "gathering costs no more here than cutting up, which leaves more to do later" },
    { "Shard", "Partial", NARROW, "16 bits: reduced in 32 bits and rounded once" },
    { "Replicate", "Partial", NARROW, "16 bits: reduced in 32 bits and rounded once" },
    { "Shard", "Partial", ANY_TYPE,
      "PyTorch lets addends through; here they are reduced first, which moves less" },
    { "Replicate", "Partial", ANY_TYPE,
      "PyTorch leaves addends, some of Replicate inputs; here they are reduced first" },
};

static const char *reason_of(const kind_count *kind)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++) {
        if (strcmp(kind->ours, reasons[i].ours) == 0 && strcmp(kind->torch, reasons[i].torch) == 0 &&
            (kind->narrow || reasons[i].types == ANY_TYPE)) {
            return reasons[i].why;
        }
    }
    return "";
}

/* ---- the page ------------------------------------------------------------------------------------------ */

static int compared(long x, long y, const char *text_x, const char *text_y)
{
    return x == y ? strcmp(text_x, text_y) : x < y ? 1 : -1;
}

static int more_often(const void *a, const void *b)
{
    const kind_count *x = a, *y = b;
    return compared(x->times, y->times, x->example, y->example);
}

static int refused_more_often(const void *a, const void *b)
{
    const refusal_count *x = a, *y = b;
    return compared(x->times, y->times, x->text, y->text);
}

static void write_operations(FILE *file)
{
    operation_count all = { "all" };
    fprintf(file, "| operation | cases | largest error, ulps | allowed | placements agree | differ | PyTorch "
                  "refuses or was not asked | gradients | largest error, ulps |\n"
                  "|---|--:|--:|--:|--:|--:|--:|--:|--:|\n");
    for (int i = 0; i < num_operations; i++) {
        const operation_count *o = &operations[i];
        fprintf(file, "| %s | %ld | %.2g | %g | %ld | %ld | %ld |", o->name, o->cases, o->ulps,
                oracle_find(o->name)->ulps, o->agree, o->differ, o->refused);
        if (o->gradients > 0) {
            fprintf(file, " %ld | %.2g |\n", o->gradients, o->gradient_ulps);
        } else {
            fprintf(file, " | |\n");
        }
        all.cases += o->cases;
        all.agree += o->agree;
        all.differ += o->differ;
        all.refused += o->refused;
        all.gradients += o->gradients;
    }
    fprintf(file, "| **all %d** | %ld | | | %ld | %ld | %ld | %ld | |\n", num_operations, all.cases,
            all.agree, all.differ, all.refused, all.gradients);
}

/* The operations with the reason of number `first`, unless one before has it. */
static void write_tolerance(FILE *file, int first)
{
    const oracle_operation *operation, *other;
    oracle_operation_at(first, &operation);
    for (int i = 0; i < first; i++) {
        oracle_operation_at(i, &other);
        if (other->why != NULL && strcmp(other->why, operation->why) == 0) {
            return;
        }
    }
    fprintf(file, "- %g: %s. ", operation->ulps, operation->why);
    for (int i = first; oracle_operation_at(i, &other); i++) {
        if (other->why != NULL && strcmp(other->why, operation->why) == 0) {
            fprintf(file, "%s%s", i > first ? ", " : "", other->name);
        }
    }
    fprintf(file, "\n");
}

static void write_tolerances(FILE *file)
{
    fprintf(file, "\n## What is allowed, and why\n\nIn ulps of f32 and f64.\n\n");
    const oracle_operation *operation;
    for (int i = 0; oracle_operation_at(i, &operation); i++) {
        if (operation->why != NULL) {
            write_tolerance(file, i);
        }
    }
}

static void write_kinds(FILE *file)
{
    qsort(kinds, (size_t)num_kinds, sizeof(kinds[0]), more_often);
    fprintf(file, "\n## Where placements differ\n\n"
                  "Along one mesh dimension of more than one rank.\n\n"
                  "| inputs | here | PyTorch | times | for example | why |\n|---|---|---|--:|---|---|\n");
    for (int i = 0; i < num_kinds; i++) {
        const kind_count *k = &kinds[i];
        fprintf(file, "| %s | %s | %s | %ld | %s | %s |\n", k->inputs, k->ours, k->torch, k->times,
                k->example, reason_of(k));
    }
}

static void write_refusals(FILE *file)
{
    qsort(refusals, (size_t)num_refusals, sizeof(refusals[0]), refused_more_often);
    fprintf(
        file,
        "\n## What PyTorch refuses, or was not asked\n\n| times | for example | message |\n|--:|---|---|\n");
    for (int i = 0; i < num_refusals; i++) {
        fprintf(file, "| %ld | %s | `%s` |\n", refusals[i].times, refusals[i].example, refusals[i].text);
    }
}

void oracle_write_report(FILE *file)
{
    fprintf(file,
            "# Operations against PyTorch\n\n"
            "Written by `test-oracle CASES --report FILE` from the cases in tests/oracle/cases. PyTorch "
            "computes the\n"
            "answers with dense tensors in double precision, rounded to its result type for the inputs' "
            "types. Every\n"
            "case must have PyTorch's shape, type and values. Errors are in units of the last place (ulps) "
            "of the\n"
            "result's type; for sums and products relative to the magnitude of their terms. Integers, "
            "WEFT_BOOL and\n"
            "moved elements are exact. 16-bit results are rounded once, so 1 is allowed unless they are "
            "exact; each\n"
            "addend of a Partial input adds to the allowance (the column is for f32 and f64). The results' "
            "layouts are\n"
            "compared with those of PyTorch's DTensor for the same inputs: a difference is no error. If "
            "PyTorch refuses\n"
            "a case, weft's result must be right all the same. Gradients are those of PyTorch's autograd, in "
            "f32, f64\n"
            "and types of 16 bits; %d ulps are allowed, of the element or of the magnitude of its terms.\n\n",
            ORACLE_GRADIENT_ULPS);
    write_operations(file);
    write_tolerances(file);
    write_kinds(file);
    write_refusals(file);
}
