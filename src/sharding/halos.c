#include "sharding/halos.h"

#include <stdio.h>

int weft_count_halos(const weft_operation_description *d)
{
    int count = 0;
    while (count < WEFT_MAX_HALOS && d->halos[count].letter != '\0') {
        count++;
    }
    return count;
}

/* The number of the term of an operand that reads a letter through an access map, or -1. */
static int term_of(const weft_rule *rule, int input, char letter)
{
    const weft_rule_operand *operand = &rule->inputs[input];
    for (int t = 0; t < operand->num_terms; t++) {
        if (operand->terms[t].access_map && rule->factors[operand->terms[t].factors[0]].name == letter) {
            return t;
        }
    }
    return -1;
}

static int runs_of(const weft_rule *rule, int input, int num_terms)
{
    const weft_rule_operand *operand = &rule->inputs[input];
    int runs = 0;
    for (int t = 0; t < num_terms; t++) {
        runs += operand->terms[t].num_factors == 1 && rule->factors[operand->terms[t].factors[0]].run;
    }
    return runs;
}

static bool check_halo(const weft_operation_description *d, const weft_rule *rule, int number, char *why,
                       size_t why_size)
{
    const weft_halo *halo = &d->halos[number];
    if (halo->input < 0 || halo->input >= rule->num_inputs || term_of(rule, halo->input, halo->letter) < 0) {
        snprintf(why, why_size, "halos[%d] is of input %d and letter '%c', but rule \"%s\" has no such \"~\"",
                 number, halo->input, halo->letter, d->rule);
        return false;
    }
    if (halo->over < 0) {
        snprintf(why, why_size, "halos[%d].over is %lld, expected at least 1", number, (long long)halo->over);
        return false;
    }
    for (int h = 0; h < number; h++) {
        if (d->halos[h].input == halo->input && d->halos[h].letter == halo->letter) {
            snprintf(why, why_size, "halos[%d] and halos[%d] are both of input %d and letter '%c'", h, number,
                     halo->input, halo->letter);
            return false;
        }
    }
    return true;
}

weft_status weft_halos_check(const weft_operation_description *d, const weft_rule *rule, char *why,
                             size_t why_size)
{
    int count = weft_count_halos(d), needed = 0;
    for (int i = 0; i < rule->num_inputs; i++) {
        int maps = 0;
        for (int t = 0; t < rule->inputs[i].num_terms; t++) {
            maps += rule->inputs[i].terms[t].access_map;
        }
        if (maps > 0 && runs_of(rule, i, rule->inputs[i].num_terms) > 1) {
            snprintf(why, why_size, "rule \"%s\" has \"~\" beside two runs in input %d", d->rule, i);
            return WEFT_ERR_INVALID;
        }
        needed += maps;
    }
    for (int h = 0; h < count; h++) {
        if (!check_halo(d, rule, h, why, why_size)) {
            return WEFT_ERR_INVALID;
        }
    }
    if (count < needed) {
        snprintf(why, why_size, "halos has %d entr%s, and rule \"%s\" has %d \"~\"", count,
                 count == 1 ? "y" : "ies", d->rule, needed);
    }
    return count >= needed ? WEFT_OK : WEFT_ERR_INVALID;
}

void weft_halos_copy(const weft_operation_description *d, weft_operation_halo halos[])
{
    weft_rule rule;
    char why[200];
    if (weft_rule_parse(d->rule, &rule, why, sizeof(why)) != WEFT_OK) {
        return;
    }
    for (int h = 0, count = weft_count_halos(d); h < count; h++) {
        const weft_halo *halo = &d->halos[h];
        int term = term_of(&rule, halo->input, halo->letter);
        bool behind_run = runs_of(&rule, halo->input, term) > 0;
        halos[h].halo = *halo;
        halos[h].dim = behind_run ? term - rule.inputs[halo->input].num_terms : term;
    }
}

weft_window weft_window_of_halo(const weft_call_layouts *call, int input, int dim)
{
    const weft_operation *operation = call->operation;
    weft_halo found = { .input = input };
    for (int h = 0; h < operation->num_halos; h++) {
        const weft_operation_halo *halo = &operation->halos[h];
        int own = halo->dim < 0 ? halo->dim + call->inputs[input]->ndim : halo->dim;
        if (halo->halo.input == input && own == dim) {
            found = halo->halo;
        }
    }
    if (operation->halo != NULL && found.letter != '\0') {
        operation->halo(&found, call->attributes->numbers);
    }
    return (weft_window){ .times = found.times == 0 ? 1 : found.times,
                          .over = found.over == 0 ? 1 : found.over,
                          .before = found.before,
                          .after = found.after,
                          .periodic = found.periodic };
}
