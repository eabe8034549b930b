#include "batches.h"

#include <stdio.h>
#include <stdlib.h>

enum { MAX_VALIDATION = 64 }; /* sequences */

bool batches_load(batches *b, const char *path, const char *program)
{
    const int64_t rows = b->rows > MAX_VALIDATION ? b->rows : MAX_VALIDATION;
    if (!text_load(&b->text, path, 10 * (b->context + 1), program)) {
        return false;
    }
    b->tokens = calloc((size_t)(rows * b->context), sizeof(*b->tokens));
    b->targets = calloc((size_t)(rows * b->context), sizeof(*b->targets));
    bool good = b->tokens != NULL && b->targets != NULL;
    if (!good && program != NULL) {
        fprintf(stderr, "%s: no memory for batches of %lld bytes\n", program, (long long)(rows * b->context));
    }
    return good;
}

void batches_free(batches *b)
{
    text_free(&b->text);
    free(b->tokens);
    free(b->targets);
}

static int64_t training_bytes(const batches *b)
{
    return b->text.count - b->text.count / 10;
}

static void append(batches *b, int64_t from, int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        b->tokens[b->count] = b->text.bytes[from + i];
        b->targets[b->count++] = b->text.bytes[from + i + 1];
    }
}

void batches_draw(batches *b, int64_t step)
{
    const uint64_t positions = (uint64_t)(training_bytes(b) - b->context - 1);
    b->count = 0;
    for (int64_t row = 0; row < b->rows; row++) {
        uint64_t number = ((uint64_t)b->seed << 32) + (uint64_t)(step * b->rows + row);
        append(b, (int64_t)(splitmix64(number) % positions), b->context);
    }
}

void batches_validation(batches *b)
{
    int64_t from = training_bytes(b), sequences = (b->text.count - from - 1) / b->context;
    b->count = 0;
    append(b, from, (sequences < MAX_VALIDATION ? sequences : MAX_VALIDATION) * b->context);
}
