/* A model writes: symbol by symbol, each drawn from its prediction. */
#ifndef EXAMPLES_SAMPLE_H
#define EXAMPLES_SAMPLE_H

#include "text.h"

typedef struct sampler {
    int64_t window;  /* symbols that a prediction reads */
    int64_t symbols; /* how many there are */
    double temperature;
    /* Fills the logits of the symbol after the window; every process gets the same. */
    void (*predict)(void *context, int32_t window[], double logits[]);
    void *context;
    char (*character)(int64_t symbol);
} sampler;

/* Continues the window, in place, by `count` symbols. Every process calls it; process 0 prints. Ends early on an error, kept
 * by weft. */
void sample_write(const sampler *s, int64_t count, int32_t window[], dice *d);

#endif
