/* Reading the text of a rule. */
#include "sharding/rule.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The text, and the current position in it. */
typedef struct reader {
    const char *text, *at;
    weft_rule *rule;
    char *why;
    size_t why_size;
} reader;

static bool complain(const reader *r, const char *format, ...) WEFT_PRINTF(2, 3);

/* Always false: the result of a function that has met a mistake. */
static bool complain(const reader *r, const char *format, ...)
{
    if (r->why != NULL && r->why_size > 0) {
        char what[160];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(what, sizeof(what), format, arguments);
        va_end(arguments);
        snprintf(r->why, r->why_size, "rule \"%s\", at character %d: %s", r->text, (int)(r->at - r->text) + 1,
                 what);
    }
    return false;
}

static char peek(reader *r)
{
    while (*r->at == ' ') {
        r->at++;
    }
    return *r->at;
}

/* The factor of this name, added when it is new; -1 with the reason when there are too many. */
static int factor_named(reader *r, char name)
{
    weft_rule *rule = r->rule;
    for (int i = 0; i < rule->num_factors; i++) {
        if (rule->factors[i].name == name) {
            return i;
        }
    }
    if (rule->num_factors == WEFT_MAX_RULE_FACTORS) {
        complain(r, "more than %d different letters", WEFT_MAX_RULE_FACTORS);
        return -1;
    }
    weft_rule_factor *factor = &rule->factors[rule->num_factors];
    factor->name = name;
    factor->run = name == '.' || isupper((unsigned char)name);
    factor->broadcasts = name == '.';
    return rule->num_factors++;
}

bool weft_rule_operand_has(const weft_rule_operand *operand, int factor)
{
    for (int t = 0; t < operand->num_terms; t++) {
        for (int i = 0; i < operand->terms[t].num_factors; i++) {
            if (operand->terms[t].factors[i] == factor) {
                return true;
            }
        }
    }
    return false;
}

static bool add_term(reader *r, weft_rule_operand *operand, weft_rule_term term)
{
    if (operand->num_terms == WEFT_MAX_DIMS) {
        return complain(r, "an operand has more than %d dimensions", WEFT_MAX_DIMS);
    }
    operand->terms[operand->num_terms++] = term;
    return true;
}

/* At most two runs, neither of which broadcasts: otherwise a shape would not determine their lengths. */
static bool check_runs(const reader *r, const weft_rule_operand *operand)
{
    int runs = 0;
    bool broadcasts = false;
    for (int t = 0; t < operand->num_terms; t++) {
        for (int i = 0; i < operand->terms[t].num_factors; i++) {
            const weft_rule_factor *factor = &r->rule->factors[operand->terms[t].factors[i]];
            runs += factor->run;
            broadcasts |= factor->broadcasts;
        }
    }
    if (runs > 2) {
        return complain(r, "an operand has more than two runs");
    }
    if (runs == 2 && broadcasts) {
        return complain(r, "\"...\" is beside another run in one operand");
    }
    return true;
}

/* The "~" after a letter. */
static bool read_windows(reader *r, weft_rule_operand *operand, int factor)
{
    if (peek(r) != '~') {
        return true;
    }
    if (r->rule->factors[factor].run || operand >= r->rule->outputs) {
        return complain(r, "\"~\" belongs after a single dimension of an input");
    }
    operand->terms[operand->num_terms - 1].access_map = true;
    r->at++;
    return true;
}

/* A letter or "...", which the operand does not have yet. -1 with the reason. */
static int read_name(reader *r, const weft_rule_operand *operand, bool whole)
{
    char name = peek(r);
    bool dots = strncmp(r->at, "...", 3) == 0;
    if (!dots && !isalpha((unsigned char)name)) {
        complain(r, "expected a letter, \"...\", \"1\", \"[\" or \"(\"");
        return -1;
    }
    int factor = factor_named(r, name);
    if (factor < 0) {
        return -1;
    }
    if (weft_rule_operand_has(operand, factor)) {
        complain(r, "%s is twice in one operand", dots ? "\"...\"" : (char[]){ name, '\0' });
        return -1;
    }
    r->rule->factors[factor].whole |= whole;
    r->at += dots ? 3 : 1;
    if (peek(r) == '*') {
        r->rule->factors[factor].any_cut = true;
        r->at++;
    }
    return factor;
}

/* A dimension, or a run of them. */
static bool read_factor(reader *r, weft_rule_operand *operand, bool whole)
{
    int factor = read_name(r, operand, whole);
    return factor >= 0 && add_term(r, operand, (weft_rule_term){ .num_factors = 1, .factors = { factor } }) &&
           read_windows(r, operand, factor) && check_runs(r, operand);
}

/* One more factor of the operand's last dimension. */
static bool read_part(reader *r, weft_rule_operand *operand, bool whole)
{
    weft_rule_term *term = &operand->terms[operand->num_terms - 1];
    if (term->num_factors == WEFT_MAX_TERM_FACTORS) {
        return complain(r, "more than %d factors in parentheses", WEFT_MAX_TERM_FACTORS);
    }
    int factor = read_name(r, operand, whole);
    if (factor < 0) {
        return false;
    }
    if (r->rule->factors[factor].run) {
        return complain(r, "a run in parentheses");
    }
    term->factors[term->num_factors++] = factor;
    return true;
}

typedef bool (*read_function)(reader *r, weft_rule_operand *operand, bool whole);

static bool read_bracket(reader *r, weft_rule_operand *operand, read_function read)
{
    r->at++;
    if (peek(r) == ']') {
        return complain(r, "nothing in brackets");
    }
    while (peek(r) != ']') {
        if (*r->at == '\0') {
            return complain(r, "a bracket is not closed");
        }
        if (!read(r, operand, true)) {
            return false;
        }
    }
    r->at++;
    return true;
}

/* "(a[b])": one dimension. */
static bool read_compound(reader *r, weft_rule_operand *operand)
{
    r->at++;
    if (peek(r) == ')') {
        return complain(r, "nothing in parentheses");
    }
    if (!add_term(r, operand, (weft_rule_term){ 0 })) {
        return false;
    }
    while (peek(r) != ')') {
        if (*r->at == '\0') {
            return complain(r, "a parenthesis is not closed");
        }
        if (!(*r->at == '[' ? read_bracket(r, operand, read_part) : read_part(r, operand, false))) {
            return false;
        }
    }
    r->at++;
    return true;
}

static bool read_operand(reader *r, weft_rule_operand *operand)
{
    for (;;) {
        switch (peek(r)) {
        case ',':
        case '-':
        case '\0':
            return true;
        case '[':
            if (!read_bracket(r, operand, read_factor)) {
                return false;
            }
            break;
        case '(':
            if (!read_compound(r, operand)) {
                return false;
            }
            break;
        case '1':
            if (!add_term(r, operand, (weft_rule_term){ 0 })) {
                return false;
            }
            r->at++;
            break;
        default:
            if (!read_factor(r, operand, false)) {
                return false;
            }
        }
    }
}

/* Operands between commas, `max` at most. */
static bool read_operands(reader *r, weft_rule_operand operands[], int *count, int max, const char *name)
{
    for (;;) {
        if (*count == max) {
            return complain(r, "more than %d %s", max, name);
        }
        if (!read_operand(r, &operands[(*count)++])) {
            return false;
        }
        if (*r->at != ',') {
            return true;
        }
        r->at++;
    }
}

static bool read_inputs(reader *r)
{
    weft_rule *rule = r->rule;
    if (!read_operands(r, rule->inputs, &rule->num_inputs, WEFT_MAX_INPUTS, "inputs")) {
        return false;
    }
    if (strncmp(r->at, "->", 2) != 0) {
        return complain(r, "expected \"->\" and the outputs");
    }
    r->at += 2;
    return true;
}

static bool read_outputs(reader *r)
{
    weft_rule *rule = r->rule;
    int from_inputs = rule->num_factors;
    if (!read_operands(r, rule->outputs, &rule->num_outputs, WEFT_MAX_OUTPUTS, "outputs")) {
        return false;
    }
    if (*r->at != '\0') {
        return complain(r, "expected the end");
    }
    for (int i = from_inputs; i < rule->num_factors; i++) {
        rule->factors[i].output_only = true;
        if (rule->factors[i].run) {
            return complain(r, "no input has the output's run %s",
                            rule->factors[i].broadcasts ? "\"...\""
                                                        : (char[]){ rule->factors[i].name, '\0' });
        }
    }
    return true;
}

/* Halos are read beside runs of consecutive indices. */
static bool check_windows(const reader *r)
{
    const weft_rule *rule = r->rule;
    for (int i = 0; i < rule->num_inputs; i++) {
        for (int t = 0; t < rule->inputs[i].num_terms; t++) {
            const weft_rule_term *term = &rule->inputs[i].terms[t];
            if (term->access_map && rule->factors[term->factors[0]].any_cut) {
                return complain(r, "%c has \"~\" and \"*\"", rule->factors[term->factors[0]].name);
            }
        }
    }
    return true;
}

weft_status weft_rule_parse(const char *text, weft_rule *rule, char *why, size_t why_size)
{
    memset(rule, 0, sizeof(*rule));
    reader r = { text == NULL ? "" : text, text == NULL ? "" : text, rule, why, why_size };
    return read_inputs(&r) && read_outputs(&r) && check_windows(&r) ? WEFT_OK : WEFT_ERR_INVALID;
}
