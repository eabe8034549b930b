/* Muon (Jordan and others, 2024; torch.optim.Muon): the update of a matrix is its momentum with all singular values brought near 1,
 * by five Newton-Schulz steps. They need whole matrices: matrices of equal shape are stacked, and each rank has some of the stack. */
#ifndef EXAMPLES_MUON_H
#define EXAMPLES_MUON_H

#include <weft/weft.h>

typedef struct muon_options {
    double learning_rate, momentum, weight_decay;
} muon_options;

/* One step for n matrices of one type and mesh, all of which have gradients, in place, with Nesterov's momentum:
 *     momenta = momentum momenta + (1 - momentum) gradients
 *     parameters = (1 - rate decay) parameters - rate 0.2 sqrt(max(rows, columns)) orthogonal(lerp(gradients, momenta, momentum))
 * The factor makes the update's root mean square that of AdamW's (adjust_lr_fn="match_rms_adamw"). */
void muon(int n, weft_tensor *const parameters[], weft_tensor *const gradients[], weft_tensor *const momenta[],
          const muon_options *options);

#endif
