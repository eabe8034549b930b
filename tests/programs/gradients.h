/* Gradients of random programs. A program has leaves and ends with a loss and one or two backward passes
 * (calls_gradients.c). It runs as it is, and once more with every tensor whole on one rank: the gradients agree, or
 * both lie where the loss is not differentiable. Some elements are compared with central differences of the loss of
 * the dense evaluation, which knows nothing of weft; of gradients' gradients with differences of differences. */
#ifndef WEFT_TESTS_GRADIENTS_H
#define WEFT_TESTS_GRADIENTS_H

#include "run.h"

/* As run_program(). */
void run_gradients(const program *p, tally *counts);

#endif
