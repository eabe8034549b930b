/* Rules: a rule says in one line of text which dimensions of an operation's operands belong together.
 *
 *  "mk,kn->mn"    inputs, an arrow, the outputs. A letter is a FACTOR: one index of the operation's loop nest.
 *                 Equal letters have equal sizes. What the output lacks is contracted (summed over).
 *  "A,A->A"       a capital letter is a run of any number of dimensions, the same in every operand that has
 *                 it. An operand may have two ("AbC->AC"): the call then says how long the first one is.
 *  "...,...->..." a run that broadcasts: aligned at its end, sizes of 1 and missing leading dimensions are
 *                 repeated. A dimension that is repeated does not have the factor.
 *  "n[c],n->"     a factor in brackets must not be sharded.
 *  "m*k,kn->mn"   a factor with an asterisk, in one operand at least, may be cut in any way; others are cut into chunks of
 *                 consecutive indices. For kernels to which it does not matter which indices a rank has.
 *  "AbC->A1C"     1 is a dimension of size 1 without a factor.
 *  "Ad,A->vd"     a factor of the output alone: each rank computes its own part from whole inputs. The call
 *                 says how large it is.
 *  "nh~,oi->noh"  an input's dimension that is seen through windows: it is cut where the factor is, but its
 *                 size and its indices are its own. Where no other input has the factor, the call says how
 *                 large it is; else it is as large as the first such dimension.
 *  ",n->n"        an operand without dimensions is a scalar.
 *  "nc->n,n"      several outputs. Each is made of all inputs: a factor that one of them lacks and an input has
 *                 is contracted there, and not in the others.
 *  "(ab)c->a(bc)" a dimension of several factors, row-major, the first one outermost: its size is their
 *                 product. It can be sharded along its first factor (of those of a size other than 1), where
 *                 that cuts the dimension into chunks; otherwise, and along others, as an input is cut, where they have
 *                 an asterisk.
 *                 The call gives the sizes of the factors that no input has as a dimension of its own.
 *
 * Blanks are ignored. */
#ifndef WEFT_SRC_SHARDING_RULE_H
#define WEFT_SRC_SHARDING_RULE_H

#include "codelets/kernels.h"
#include "layout/layout.h"

enum {
    WEFT_MAX_INPUTS = 7,        /* tensors that an operation takes */
    WEFT_MAX_OUTPUTS = 4,       /* and that it gives */
    WEFT_MAX_RULE_FACTORS = 20, /* letters of a rule */
    WEFT_MAX_TERM_FACTORS = 8,  /* letters of one compound dimension */
    WEFT_MAX_FACTORS = 24       /* factors of a rule with its runs spelled out */
};

/* ---- a rule as it is written --------------------------------------------------------------------------- */

typedef struct weft_rule_factor {
    char name; /* 'a' .. 'z'; 'A' .. 'Z' for a run; '.' for the run "..." */
    bool run;
    bool broadcasts;
    bool whole;       /* in brackets: must not be sharded */
    bool any_cut;     /* with an asterisk: parts may be several runs of indices */
    bool output_only; /* in no input */
} weft_rule_factor;

/* One dimension of an operand (or one run of them): no factor for "1", one factor, or several (compound). */
typedef struct weft_rule_term {
    bool access_map; /* of its factor */
    int num_factors;
    int factors[WEFT_MAX_TERM_FACTORS];
} weft_rule_term;

typedef struct weft_rule_operand {
    int num_terms;
    weft_rule_term terms[WEFT_MAX_DIMS];
} weft_rule_operand;

typedef struct weft_rule {
    int num_inputs;
    weft_rule_operand inputs[WEFT_MAX_INPUTS];
    int num_outputs;
    weft_rule_operand outputs[WEFT_MAX_OUTPUTS];
    int num_factors; /* in the order in which the text names them */
    weft_rule_factor factors[WEFT_MAX_RULE_FACTORS];
} weft_rule;

/* WEFT_ERR_INVALID with why, a text that names the place in the rule. */
weft_status weft_rule_parse(const char *text, weft_rule *rule, char *why, size_t why_size);

bool weft_rule_operand_has(const weft_rule_operand *operand, int factor);

/* ---- a rule on given shapes ---------------------------------------------------------------------------- */

enum { WEFT_MAX_ATTRIBUTES = WEFT_KERNEL_NUMBERS, WEFT_MAX_SIZES = 16 };

/* The choices of a call beside its tensors that its layouts depend on. Integers alone, so that it can be
 * hashed and compared as bytes: zero-initialise it. */
typedef struct weft_attributes {
    int64_t rule;    /* which of the operation's rules */
    int64_t leading; /* dimensions of the first run, where an operand has two */
    int64_t type;    /* of the output, if the operation leaves it to the call (WEFT_TYPE_GIVEN) */
    /* Outputs, the last ones, that are not asked for: not computed, NULL. Layouts are chosen as if they were. */
    int64_t omitted;
    /* The placements that output 0 will be redistributed to (weft_wish()); 0: not known. */
    int64_t wish;
    /* Sizes of all factors that no input has as a dimension of its own, in the order in which the rule's
     * text names them; without a rule, the operation defines them. */
    int64_t num_sizes;
    int64_t sizes[WEFT_MAX_SIZES];
    int64_t num_numbers; /* integers for the operation, its rule and its kernel */
    int64_t numbers[WEFT_MAX_ATTRIBUTES];
} weft_attributes;

typedef struct weft_operand_shape {
    const char *name; /* of the argument, for messages */
    int ndim;
    const int64_t *shape;
} weft_operand_shape;

typedef struct weft_factor {
    char name;
    bool whole;   /* must not be sharded */
    bool any_cut; /* parts may be several runs of indices: which they are does not matter */
    bool inner;   /* not the first factor of a compound dimension: sharded if an input is so now */
    /* Bit o: output o lacks it, and an input has it. Sharding it makes that output Partial. */
    unsigned contracted;
    int64_t size;
} weft_factor;

/* factor_of[...][d]: the factor of dimension d, or -1 for a dimension that is repeated or of size 1; of a
 * compound dimension the first one whose size is not 1. inner[...][d]: the number of indices of
 * a compound dimension with the same index of that factor; 1 for all other dimensions. */
typedef struct weft_compound {
    int count; /* 0: the dimension is not compound */
    int factors[WEFT_MAX_TERM_FACTORS]; /* the outermost first */
} weft_compound;

typedef struct weft_bound_output {
    int ndim;
    int factor_of[WEFT_MAX_DIMS];
    int64_t inner[WEFT_MAX_DIMS];
    weft_compound compound[WEFT_MAX_DIMS];
    int64_t shape[WEFT_MAX_DIMS];
} weft_bound_output;

typedef struct weft_binding {
    int num_factors; /* those of the outputs first, in their order */
    weft_factor factors[WEFT_MAX_FACTORS];
    int num_inputs;
    int input_ndim[WEFT_MAX_INPUTS];
    int input_factor_of[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    int64_t input_inner[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    weft_compound input_compound[WEFT_MAX_INPUTS][WEFT_MAX_DIMS];
    bool input_access[WEFT_MAX_INPUTS][WEFT_MAX_DIMS]; /* the dimension has an access map over its factor */
    int num_outputs;
    weft_bound_output outputs[WEFT_MAX_OUTPUTS];
} weft_binding;

/* Expands the rule's runs for `rule->num_inputs` shapes. WEFT_ERR_SHAPE with why, which names the
 * argument, its shape and the expected one; WEFT_ERR_INVALID if the attributes do not fit the rule. */
weft_status weft_rule_bind(const weft_rule *rule, const weft_operand_shape shapes[],
                           const weft_attributes *attributes, weft_binding *binding, char *why,
                           size_t why_size);

#endif
