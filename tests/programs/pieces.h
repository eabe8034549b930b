/* Pieces of a program: functions of graphs, and steps outside. */
#ifndef WEFT_TESTS_PIECES_H
#define WEFT_TESTS_PIECES_H

#include "evaluate.h"

enum { MAX_PIECE = 12, MAX_GRAPH_OUTPUTS = 2 };

/* Steps that follow each other: one call of a graph, or not in any. */
typedef struct piece {
    int number, first, end;
    bool in_graph;
    int num_new, fresh[MAX_VALUES]; /* values that it hands to the scope around it */
    int num_outputs;                /* so many of these are the graph's outputs; others are kept by weft_scope_keep() */
    /* Of those to be frozen. */
    int num_inputs, inputs[MAX_VALUES]; /* values of before that its calls take */
    bool given_up[MAX_VALUES];          /* inputs that nothing after it needs: the program gives them up, the graph takes them */
} piece;

/* A program's pieces. */
typedef struct partition {
    int num_pieces;
    piece pieces[MAX_STEPS];
    /* The program as it runs: before each step. */
    int depth[MAX_STEPS + 1];
    life lives[MAX_STEPS + 1][MAX_VALUES];
    int maker[MAX_VALUES]; /* the step that makes a value */
    bool requires_grad[MAX_VALUES]; /* at the end */
} partition;

/* `frozen`: of calls alone, which a frozen graph repeats or refuses; all that they need are inputs, all that is left are
 * outputs, and some inputs are given up. False: a step is not valid. */
bool choose_pieces(partition *plan, const program *p, bool frozen);

#endif
