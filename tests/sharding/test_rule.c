/* Rules: those of all operations are parsed; wrong ones are refused with a reason; shapes are inferred and
 * checked. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "dispatch/dispatch.h"
#include "rows.h"

/* Returns the number of its rules. */
static int check_operation(const weft_operation *operation)
{
    assert_non_null(operation->name);
    if (operation->expand != NULL && operation->expands == NULL) {
        /* All of its calls become others: it has neither layouts nor tasks of its own. */
        assert_null(operation->lower);
        assert_int_equal(operation->kernel, WEFT_KERNEL_NONE);
        return 0;
    }
    /* One kernel, or a lowering of its own, which may use one; and one way to find layouts. */
    assert_true(operation->lower != NULL || operation->kernel != WEFT_KERNEL_NONE);
    assert_int_equal(
        (operation->rules[0] != NULL) + (operation->write_rule != NULL) + (operation->choose != NULL), 1);
    assert_true((operation->write_rule != NULL) == (operation->rule_like != NULL));
    int rules = 0;
    for (; rules < WEFT_MAX_RULES && operation->rules[rules] != NULL; rules++) {
        weft_rule rule;
        char why[200] = "";
        if (weft_rule_parse(operation->rules[rules], &rule, why, sizeof(why)) != WEFT_OK) {
            fail_msg("%s: %s", operation->name, why);
        }
        for (int input = 0; input < rule.num_inputs; input++) {
            assert_non_null(operation->inputs[input].name);
            assert_true(operation->inputs[input].types != 0);
        }
    }
    return rules;
}

static void test_all_operations(void **state)
{
    (void)state;
    int rules = 0;
    for (const weft_operation *const *const *family = weft_operation_families; *family != NULL; family++) {
        for (const weft_operation *const *operation = *family; *operation != NULL; operation++) {
            rules += check_operation(*operation);
        }
    }
    print_message("# %d rules\n", rules);
    assert_true(rules > 20);
}

/* The page is generated: tools/weft_operations.c. Its path and the program's are arguments. */
static const char *page, *program;

static void test_page(void **state)
{
    (void)state;
    FILE *table = popen(program, "r"), *text = fopen(page, "r");
    assert_non_null(table);
    assert_non_null(text);
    char line[600], written[600] = "";
    int lines = 0;
    while (strncmp(written, "| operation |", 13) != 0) {
        assert_non_null(fgets(written, sizeof(written), text));
    }
    for (; fgets(line, sizeof(line), table) != NULL; lines++) {
        assert_string_equal(written, line); /* else: weft-operations, into docs/operations.md */
        if (fgets(written, sizeof(written), text) == NULL) {
            written[0] = '\0';
        }
    }
    assert_true(lines > 100);
    assert_true(written[0] != '|');
    assert_int_equal(pclose(table), 0);
    fclose(text);
}

static void test_malformed(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *text, *why;
    } cases[] = {
        { THIS_ROW, NULL, "->" },
        { THIS_ROW, "", "->" },
        { THIS_ROW, "ab", "->" },
        { THIS_ROW, "ab-", "->" },
        { THIS_ROW, "ab>c", "expected a letter" },
        { THIS_ROW, "ab->a->b", "the end" },
        { THIS_ROW, "ab->a,b,ab,,b", "more than 4 outputs" },
        { THIS_ROW, "a?->a", "expected a letter" },
        { THIS_ROW, "na~~->na", "expected a letter" },
        { THIS_ROW, "nA~->nA", "single dimension" },
        { THIS_ROW, "na->na~", "of an input" },
        { THIS_ROW, "na*~->na", "a has" },
        { THIS_ROW, "na~->na*", "a has" },
        { THIS_ROW, "n*a~->na", NULL },
        { THIS_ROW, "n**->n", "expected a letter" },
        { THIS_ROW, "*n->n", "expected a letter" },
        { THIS_ROW, "a2->a", "expected a letter" },
        { THIS_ROW, "a.b->a", "expected a letter" },
        { THIS_ROW, "a..->a", "expected a letter" },
        { THIS_ROW, "aa->a", "twice" },
        { THIS_ROW, "ab->bb", "twice" },
        { THIS_ROW, "......->...", "twice" },
        { THIS_ROW, "a[a]->a", "twice" },
        { THIS_ROW, "[]a->a", "nothing in brackets" },
        { THIS_ROW, "[a->a", "expected a letter" },
        { THIS_ROW, "[a", "not closed" },
        { THIS_ROW, "[[a]]->a", "expected a letter" },
        { THIS_ROW, "a]->a", "expected a letter" },
        { THIS_ROW, "(ab->ab", "expected a letter" },
        { THIS_ROW, "(ab", "not closed" },
        { THIS_ROW, "()a->a", "nothing in parentheses" },
        { THIS_ROW, "(a[])->a", "nothing in brackets" },
        { THIS_ROW, "(aA)->aA", "a run in parentheses" },
        { THIS_ROW, "(ab)a->ab", "twice" },
        { THIS_ROW, "a(b1)->a", "expected a letter" },
        { THIS_ROW, "((ab)c)->a", "expected a letter" },
        { THIS_ROW, "ab)->a", "expected a letter" },
        { THIS_ROW, "(abcdefghi)->a", "more than 8 factors" },
        { THIS_ROW, "ABC->ABC", "more than two runs" },
        { THIS_ROW, "A...->A", "beside another run" },
        { THIS_ROW, "...A->A", "beside another run" },
        { THIS_ROW, "a->A", "no input has" },
        { THIS_ROW, "a->a...", "no input has" },
        { THIS_ROW, "a,b,c,d,e,f,g,h->a", "more than 7 inputs" },
        { THIS_ROW, "abcdefghi->a", "more than 8 dimensions" },
        { THIS_ROW, "abcdefgh,ijklmnop,qrstu->a", "different letters" },
        { THIS_ROW, "->", NULL }, /* a scalar without a dimension is a rule */
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        enter_row(cases[i].place, __func__);
        weft_rule rule;
        char why[200] = "";
        weft_status status = weft_rule_parse(cases[i].text, &rule, why, sizeof(why));
        if (cases[i].why == NULL) {
            assert_int_equal(status, WEFT_OK);
            continue;
        }
        if (status != WEFT_ERR_INVALID || strstr(why, cases[i].why) == NULL) {
            fail_msg("\"%s\": expected \"%s\", got status %d, \"%s\"", cases[i].text, cases[i].why, status,
                     why);
        }
        assert_int_equal(weft_rule_parse(cases[i].text, &rule, NULL, 0), WEFT_ERR_INVALID);
    }
    leave_rows();
}

static void test_structure(void **state)
{
    (void)state;
    weft_rule rule;
    assert_int_equal(weft_rule_parse(" n [c] , n -> ", &rule, NULL, 0), WEFT_OK);
    assert_int_equal(rule.num_inputs, 2);
    assert_int_equal(rule.inputs[0].num_terms, 2);
    assert_int_equal(rule.inputs[1].num_terms, 1);
    assert_int_equal(rule.outputs[0].num_terms, 0);
    assert_int_equal(rule.num_factors, 2);
    assert_false(rule.factors[0].whole);
    assert_true(rule.factors[1].whole);
    assert_false(rule.factors[0].any_cut);
    assert_int_equal(weft_rule_parse("m *k,...*k*n -> mn...", &rule, NULL, 0), WEFT_OK);
    for (int i = 0; i < 4; i++) {
        assert_int_equal(rule.factors[i].any_cut, rule.factors[i].name != 'n');
    }
    assert_int_equal(weft_rule_parse("Ad,A->vd", &rule, NULL, 0), WEFT_OK);
    assert_true(rule.factors[0].run);
    assert_false(rule.factors[0].broadcasts);
    assert_true(rule.factors[2].output_only);
    assert_int_equal(weft_rule_parse("...a,...->...", &rule, NULL, 0), WEFT_OK);
    assert_true(rule.factors[0].run && rule.factors[0].broadcasts);
    assert_int_equal(weft_rule_parse("[B]->[B]", &rule, NULL, 0), WEFT_OK);
    assert_true(rule.factors[0].run && rule.factors[0].whole);
}

/* ---- rules on shapes ----------------------------------------------------------------------------------- */

/* "5,3 4" is two shapes; "-" is a scalar. */
typedef struct shape_list {
    int count;
    int ndim[WEFT_MAX_INPUTS];
    int64_t shape[WEFT_MAX_INPUTS][WEFT_MAX_DIMS + 1];
} shape_list;

static shape_list read_shapes(const char *text)
{
    shape_list list = { .count = 1 };
    for (const char *at = text; *at != '\0'; at++) {
        if (*at == ' ') {
            list.count++;
        } else if (*at >= '0' && *at <= '9') {
            int64_t *shape = list.shape[list.count - 1];
            int *ndim = &list.ndim[list.count - 1];
            if (at == text || at[-1] < '0' || at[-1] > '9') {
                shape[(*ndim)++] = 0;
            }
            shape[*ndim - 1] = 10 * shape[*ndim - 1] + (*at - '0');
        }
    }
    return list;
}

static weft_status bind(const char *text, const char *shapes_text, weft_attributes attributes,
                        weft_binding *binding, char *why, size_t why_size)
{
    static const char *const names[] = { "a", "b", "c", "d" };
    weft_rule rule;
    assert_int_equal(weft_rule_parse(text, &rule, why, why_size), WEFT_OK);
    shape_list list = read_shapes(shapes_text);
    assert_int_equal(list.count, rule.num_inputs);
    weft_operand_shape shapes[WEFT_MAX_INPUTS];
    for (int i = 0; i < list.count; i++) {
        shapes[i] = (weft_operand_shape){ names[i], list.ndim[i], list.shape[i] };
    }
    return weft_rule_bind(&rule, shapes, &attributes, binding, why, why_size);
}

static void test_output_shapes(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *rule, *inputs, *output;
        weft_attributes attributes;
    } cases[] = {
        { THIS_ROW, "mk,kn->mn", "5,3 3,4", "5,4", { 0 } },
        { THIS_ROW, "mk,kn->mn", "0,3 3,0", "0,0", { 0 } },
        { THIS_ROW, "Bmk,Bkn->Bmn", "5,3 3,4", "5,4", { 0 } },
        { THIS_ROW, "Bmk,Bkn->Bmn", "7,2,5,3 7,2,3,4", "7,2,5,4", { 0 } },
        { THIS_ROW, "Bkm,Bnk->Bmn", "7,3,5 7,4,3", "7,5,4", { 0 } },
        { THIS_ROW, "...,...->...", "5,3 3", "5,3", { 0 } },
        { THIS_ROW, "...,...->...", "3 5,3", "5,3", { 0 } },
        { THIS_ROW, "...,...->...", "5,1 1,3", "5,3", { 0 } },
        { THIS_ROW, "...,...->...", "1 -", "1", { 0 } },
        { THIS_ROW, "...,...->...", "- -", "-", { 0 } },
        { THIS_ROW, "...,...->...", "1,0 4,1", "4,0", { 0 } },
        { THIS_ROW, "...,...->...", "2,1,4 3,1", "2,3,4", { 0 } },
        { THIS_ROW, "AbC->AC", "5,3,4", "3,4", { .leading = 0 } },
        { THIS_ROW, "AbC->AC", "5,3,4", "5,4", { .leading = 1 } },
        { THIS_ROW, "AbC->AC", "5,3,4", "5,3", { .leading = 2 } },
        { THIS_ROW, "AbC->A1C", "5,3,4", "5,1,4", { .leading = 1 } },
        { THIS_ROW, "AbC->A1C", "5", "1", { .leading = 0 } },
        { THIS_ROW, "vd,A->Ad", "9,4 5,3", "5,3,4", { 0 } },
        { THIS_ROW, "vd,A->Ad", "9,4 -", "4", { 0 } },
        { THIS_ROW, "(ab)c->a(bc)", "6,5", "2,15", { .num_sizes = 2, .sizes = { 2, 3 } } },
        { THIS_ROW, "a(bc)->(ab)c", "2,15", "6,5", { .num_sizes = 2, .sizes = { 3, 5 } } },
        { THIS_ROW, "(ab)->a1b", "6", "2,1,3", { .num_sizes = 2, .sizes = { 2, 3 } } },
        { THIS_ROW, "(ab)->ab", "0", "5,0", { .num_sizes = 2, .sizes = { 5, 0 } } },
        { THIS_ROW, "ab->(ab)", "4,7", "28", { 0 } },
        { THIS_ROW, "(ab),a->bv", "6 2", "3,9", { .num_sizes = 2, .sizes = { 3, 9 } } },
        { THIS_ROW, "(a[b])[c]->(a[d])[e]", "4,6", "6,4", { .num_sizes = 4, .sizes = { 2, 2, 3, 4 } } },
        { THIS_ROW, "A(bc)->A(cb)", "2,3,12", "2,3,12", { .num_sizes = 2, .sizes = { 3, 4 } } },
        { THIS_ROW, "ab->(ba)", "4,7", "28", { 0 } },
        { THIS_ROW, "Ad,A->vd", "5,3,4 5,3", "9,4", { .num_sizes = 1, .sizes = { 9 } } },
        { THIS_ROW, "n[c],n->", "5,7 5", "-", { 0 } },
        { THIS_ROW, "n[c],n,->n[c]", "5,7 5 -", "5,7", { 0 } },
        { THIS_ROW, "1A->A", "1,3,4", "3,4", { 0 } },
        { THIS_ROW, "A->", "3,4", "-", { 0 } },
        { THIS_ROW, "a->xay", "3", "5,3,6", { .num_sizes = 2, .sizes = { 5, 6 } } },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        enter_row(cases[i].place, __func__);
        weft_binding binding;
        char why[200] = "";
        if (bind(cases[i].rule, cases[i].inputs, cases[i].attributes, &binding, why, sizeof(why)) !=
            WEFT_OK) {
            fail_msg("%s on %s: %s", cases[i].rule, cases[i].inputs, why);
        }
        shape_list expected = read_shapes(cases[i].output);
        assert_int_equal(binding.outputs[0].ndim, expected.ndim[0]);
        for (int d = 0; d < binding.outputs[0].ndim; d++) {
            assert_int_equal(binding.outputs[0].shape[d], expected.shape[0][d]);
        }
    }
    leave_rows();
}

static void test_wrong_shapes(void **state)
{
    (void)state;
    static const struct {
        row_place place;
        const char *rule, *inputs, *why;
        weft_attributes attributes;
        weft_status status;
    } cases[] = {
        { THIS_ROW,
          "mk,kn->mn",
          "5,3 4,4",
          "b has size 4 in dimension 0, expected 3, as dimension 1 of a has",
          { 0 },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "mk,kn->mn", "5 5,4", "a has 1 dimension, expected 2", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW, "mk,kn->mn", "5,3 3,4,1", "b has 3 dimensions, expected 2", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW,
          "Bmk,Bkn->Bmn",
          "5 5,4",
          "a has 1 dimension, expected at least 2",
          { 0 },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "Bmk,Bkn->Bmn", "2,5,3 3,4", "b has 2 dimensions, expected 3", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW,
          "Bmk,Bkn->Bmn",
          "2,5,3 1,3,4",
          "b has size 1 in dimension 0, expected 2",
          { 0 },
          WEFT_ERR_SHAPE },
        { THIS_ROW,
          "...,...->...",
          "5,3 4",
          "b has size 4 in dimension 0, expected 3 or 1, as dimension 1 of a has",
          { 0 },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "...,...->...", "5,0 5,2", "b has size 2", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW, "A,A->A", "5,3 3", "b has 1 dimension, expected 2", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW, "A,A->A", "5,3 5,1", "b has size 1 in dimension 1, expected 3", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW,
          "AbC->AC",
          "5,3",
          "a has 2 dimensions, expected at least 3",
          { .leading = 2 },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "AbC->AC", "5,3", "first run", { .leading = -1 }, WEFT_ERR_INVALID },
        { THIS_ROW,
          "vd,A->Ad",
          "2,2 1,1,1,1,1,1,1,1",
          "the output has more than 8 dimensions",
          { 0 },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "Ad,A->vd", "5,4 5", "no size is given for v", { 0 }, WEFT_ERR_INVALID },
        { THIS_ROW, "1A->A", "2,3", "a has size 2 in dimension 0, expected 1", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW,
          "(ab)->ab",
          "7",
          "a has size 7 in dimension 0, expected 6, the product of its factors",
          { .num_sizes = 2, .sizes = { 2, 3 } },
          WEFT_ERR_SHAPE },
        { THIS_ROW,
          "(ab)->ab",
          "6",
          "no size is given for b",
          { .num_sizes = 1, .sizes = { 2 } },
          WEFT_ERR_INVALID },
        { THIS_ROW,
          "(ab)->ab",
          "6",
          "3 sizes are given, and the rule needs 2",
          { .num_sizes = 3, .sizes = { 2, 3, 1 } },
          WEFT_ERR_INVALID },
        { THIS_ROW,
          "A->A",
          "5,4",
          "1 sizes are given, and the rule needs 0",
          { .num_sizes = 1, .sizes = { 5 } },
          WEFT_ERR_INVALID },
        { THIS_ROW,
          "(ab)->ab",
          "6,1",
          "a has 2 dimensions, expected 1",
          { .num_sizes = 2, .sizes = { 2, 3 } },
          WEFT_ERR_SHAPE },
        { THIS_ROW, "ab->(ab)", "4000000000,4000000000", "overflows int64", { 0 }, WEFT_ERR_SHAPE },
        { THIS_ROW, "n[c],n,->n[c]", "5,7 5 1", "c has 1 dimension, expected 0", { 0 }, WEFT_ERR_SHAPE },
    };
    for (size_t i = 0; i < WEFT_ARRAY_SIZE(cases); i++) {
        enter_row(cases[i].place, __func__);
        weft_binding binding;
        char why[200] = "";
        weft_status status =
            bind(cases[i].rule, cases[i].inputs, cases[i].attributes, &binding, why, sizeof(why));
        if (status != cases[i].status || strstr(why, cases[i].why) == NULL) {
            fail_msg("%s on %s: expected \"%s\", got status %d, \"%s\"", cases[i].rule, cases[i].inputs,
                     cases[i].why, status, why);
        }
    }
    leave_rows();
}

static void test_factors(void **state)
{
    (void)state;
    weft_binding binding;
    assert_int_equal(bind("mk,kn->mn", "5,3 3,4", (weft_attributes){ 0 }, &binding, NULL, 0), WEFT_OK);
    assert_int_equal(binding.num_factors, 3);
    assert_int_equal(binding.factors[0].name, 'm');
    assert_int_equal(binding.factors[1].name, 'n');
    assert_int_equal(binding.factors[2].name, 'k');
    assert_true(binding.factors[2].contracted && !binding.factors[0].contracted);
    assert_int_equal(binding.input_factor_of[1][0], 2);
    assert_int_equal(binding.input_factor_of[1][1], 1);

    /* A repeated dimension has not the factor; one of size 1 that is not repeated has it. */
    assert_int_equal(bind("...,...->...", "5,1,1 1,1", (weft_attributes){ 0 }, &binding, NULL, 0), WEFT_OK);
    assert_int_equal(binding.num_factors, 3);
    assert_int_equal(binding.input_factor_of[0][0], 0);
    assert_int_equal(binding.input_factor_of[0][2], 2);
    assert_int_equal(binding.input_factor_of[1][0], 1);
    assert_int_equal(bind("...,...->...", "5,4 1,4", (weft_attributes){ 0 }, &binding, NULL, 0), WEFT_OK);
    assert_int_equal(binding.input_factor_of[1][0], -1);
    assert_int_equal(binding.input_factor_of[1][1], 1);
}

static void test_compound_factors(void **state)
{
    (void)state;
    weft_binding binding;
    weft_attributes sizes = { .num_sizes = 2, .sizes = { 2, 3 } };
    assert_int_equal(bind("(ab)c->a(bc)", "6,5", sizes, &binding, NULL, 0), WEFT_OK);
    assert_int_equal(binding.num_factors, 3);
    assert_int_equal(binding.input_factor_of[0][0], 0); /* a leads */
    assert_int_equal(binding.input_inner[0][0], 3);
    assert_int_equal(binding.input_factor_of[0][1], 2);
    assert_int_equal(binding.input_inner[0][1], 1);
    assert_int_equal(binding.outputs[0].factor_of[0], 0);
    assert_int_equal(binding.outputs[0].inner[0], 1);
    assert_int_equal(binding.outputs[0].factor_of[1], 1);
    assert_int_equal(binding.outputs[0].inner[1], 5);
    /* b is after a, c after b. */
    assert_true(!binding.factors[0].whole && binding.factors[1].whole && binding.factors[2].whole);

    /* A factor of size 1 leaves the lead to the next one. */
    sizes.sizes[0] = 1;
    assert_int_equal(bind("(ab)c->a(bc)", "3,5", sizes, &binding, NULL, 0), WEFT_OK);
    assert_int_equal(binding.input_factor_of[0][0], 1);
    assert_int_equal(binding.input_inner[0][0], 1);
    assert_int_equal(binding.outputs[0].factor_of[1], 1);
    assert_true(binding.factors[0].whole && !binding.factors[1].whole && binding.factors[2].whole);
}

/* Sizes of dimensions with windows are their own; those of their factors come from elsewhere. */
static void test_windows(void **state)
{
    (void)state;
    weft_binding binding;
    char why[200] = "";
    weft_attributes sizes = { .num_sizes = 1, .sizes = { 7 } };
    assert_int_equal(bind("nh~,n->nh", "5,9 5", sizes, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.outputs[0].shape[1], 7);
    assert_true(binding.input_access[0][1] && !binding.input_access[0][0]);
    assert_int_equal(binding.input_factor_of[0][1], binding.outputs[0].factor_of[1]);
    assert_int_equal(bind("nh~,n->nh", "5,1 5", sizes, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.input_factor_of[0][1], binding.outputs[0].factor_of[1]);
    assert_int_equal(bind("nh,nh~->n", "5,4 5,6", (weft_attributes){ 0 }, &binding, why, sizeof(why)),
                     WEFT_OK);
    assert_int_equal(binding.factors[binding.input_factor_of[1][1]].size, 4);
    assert_true(binding.factors[binding.input_factor_of[1][1]].contracted);
    assert_int_equal(bind("n~h->nh", "5,9", sizes, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.outputs[0].shape[0], 7);
    assert_int_equal(weft_binding_rows(&binding, 0), WEFT_ROWS_WINDOW);
    /* Without a size given: that of the dimension. */
    assert_int_equal(bind("nh~->nh", "5,9", (weft_attributes){ 0 }, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.outputs[0].shape[1], 9);
    assert_int_equal(bind("nh~->n", "5,9", (weft_attributes){ 0 }, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.factors[binding.input_factor_of[0][1]].size, 9);
    assert_int_equal(bind("n~h~,v->nhv", "5,9 2", sizes, &binding, why, sizeof(why)), WEFT_OK);
    assert_int_equal(binding.outputs[0].shape[0], 7);
    assert_int_equal(binding.outputs[0].shape[1], 9);
    assert_int_equal(bind("nh~->vnh", "5,9", (weft_attributes){ 0 }, &binding, why, sizeof(why)), WEFT_ERR_INVALID);
    assert_non_null(strstr(why, "no size is given for v"));
}

/* Each output has its own dimensions; a factor is contracted in those that lack it, and in no other. */
static void test_several_outputs(void **state)
{
    (void)state;
    weft_rule rule;
    weft_binding binding;
    char why[160] = "";
    int64_t shape[] = { 6, 5 };
    weft_operand_shape a = { "a", 2, shape };
    const weft_attributes attributes = { .num_sizes = 1, .sizes = { 3 } };
    assert_int_equal(weft_rule_parse("nc->c,nc1,,vn", &rule, why, sizeof(why)), WEFT_OK);
    assert_int_equal(rule.num_outputs, 4);
    assert_int_equal(weft_rule_bind(&rule, &a, &attributes, &binding, why, sizeof(why)), WEFT_OK);
    const struct {
        int ndim;
        int64_t shape[3];
        const char *lacks; /* factors that an input has */
    } expected[] = { { 1, { 5 }, "n" }, { 3, { 6, 5, 1 }, "" }, { 0, { 0 }, "nc" }, { 2, { 3, 6 }, "c" } };
    assert_int_equal(binding.num_outputs, 4);
    for (int o = 0; o < 4; o++) {
        assert_int_equal(binding.outputs[o].ndim, expected[o].ndim);
        assert_memory_equal(binding.outputs[o].shape, expected[o].shape,
                            (size_t)expected[o].ndim * sizeof(shape[0]));
        for (int f = 0; f < binding.num_factors; f++) {
            bool lacks = strchr(expected[o].lacks, binding.factors[f].name) != NULL;
            assert_int_equal(binding.factors[f].contracted >> o & 1, lacks);
        }
    }
    assert_int_equal(weft_binding_rows(&binding, 0), WEFT_ROWS_SUMMED);
    assert_int_equal(weft_binding_output_rows(&binding, 1), WEFT_ROWS_ALL);
}

int main(int argc, char **argv)
{
    page = argc > 2 ? argv[1] : "";
    program = argc > 2 ? argv[2] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_all_operations),   cmocka_unit_test(test_page),
        cmocka_unit_test(test_malformed),        cmocka_unit_test(test_structure),
        cmocka_unit_test(test_several_outputs),  cmocka_unit_test(test_output_shapes),
        cmocka_unit_test(test_wrong_shapes),     cmocka_unit_test(test_factors),
        cmocka_unit_test(test_compound_factors), cmocka_unit_test(test_windows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
