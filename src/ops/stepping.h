/* Arguments and calls that all optimisers' steps share. */
#ifndef WEFT_SRC_OPS_STEPPING_H
#define WEFT_SRC_OPS_STEPPING_H

#include "ops/ops.h"

/* The last one: master weights. */
enum { WEFT_MAX_STATES = 4 };
/* The attributes among the numbers of a step that say that the gradient is negated, and that the parameters are roundings of the last
 * states. */
enum { WEFT_STEP_MAXIMIZES = 2, WEFT_STEP_ROUNDS };

/* Arguments of a step; states[k]: NULL if absent, as its name then is. */
typedef struct weft_stepping {
    const char *function;
    int n;
    weft_tensor *const *parameters;
    weft_tensor *const *gradients;
    weft_tensor *const *states[WEFT_MAX_STATES];
    const char *state_names[WEFT_MAX_STATES];
    bool maximize;
    bool has_masters; /* they are the last states */
} weft_stepping;

/* The numbers of the program that the scalars of a step are derived from. */
enum {
    WEFT_ORIGIN_RATE,
    WEFT_ORIGIN_BETA1,
    WEFT_ORIGIN_BETA2,
    WEFT_ORIGIN_EPSILON,
    WEFT_ORIGIN_DECAY,
    WEFT_ORIGIN_STEP,
    WEFT_ORIGIN_MOMENTUM,
    WEFT_ORIGIN_SLOWING, /* dampening, or the decay of the rate or of the momentum */
    WEFT_NUM_ORIGINS
};

/* Checks of arguments: false, or NULL, with the error kept. */
bool weft_check_step(const weft_stepping *s);
bool weft_check_list(const char *function, const char *name, int n, weft_tensor *const tensors[]);
/* The layout of the i-th tensor of a list, of a floating type. */
const weft_layout *weft_check_item(const char *function, const char *list, weft_tensor *const tensors[], int i);
/* A NULL gradient is of a parameter that the loss does not depend on, and is skipped; unless it is the result of a call
 * that failed. */
bool weft_check_absent(const char *function, int i);
/* Lists the gradients that there are; returns their number. `present`: NULL to count alone. */
int weft_list_present(int n, weft_tensor *const gradients[], weft_tensor *present[]);
/* Among the lists of n tensors the first `changed` are modified: none of their tensors may occur twice. */
bool weft_check_distinct(const char *function, int n, int changed, int num_lists, weft_tensor *const *const lists[],
                         const char *const names[]);
/* Keeps an error if a number is out of range; `expected` describes the range. */
bool weft_check_step_number(const char *function, const char *name, double value, bool valid, const char *expected);
bool weft_check_not_negative(const char *function, const char *name, double value);
bool weft_check_beta(const char *function, const char *name, double value);
bool weft_check_nesterov(const char *function, double momentum, double dampening);

/* Takes part in the SPMD check with wrong arguments. */
weft_status weft_refuse_step(const char *function);

/* Steps of all parameters, from lists of equal length: the tensors that `one` changes in its order, and
 * the gradients. */
bool weft_expand_step(const weft_call *call, const weft_operation *one, weft_tensor *outputs[]);
/* `call`: complete but for its tensors. `derivation`: of its scalars, or NULL. */
weft_status weft_step_all(const weft_stepping *s, weft_call call, const weft_derivation *derivation, const double origins[]);

/* Of weft_sgd() and weft_adam() (optimizers.c): their calls without tensors and scalars. */
weft_call weft_call_of_sgd(bool momentum, bool nesterov);
weft_call weft_call_of_adam(void);
void weft_derive_adam(const double origins[], double scalars[]);
void weft_derive_adamw(const double origins[], double scalars[]);

#endif
