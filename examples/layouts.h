/* Layouts of a model's parameters, chosen by weft_graph_shard() (docs/graphs.md, "Automatic shardings"). */
#ifndef EXAMPLES_LAYOUTS_H
#define EXAMPLES_LAYOUTS_H

#include <stdio.h>

#include <weft/weft.h>

/* Places the model's parameters where the newest run of the graph, a training step, takes the least predicted time.
 * tensors[]: the parameters, and what lies as they do (moments of an optimiser). table: receives the reasons; or NULL. */
weft_status layouts_choose(weft_graph *step, weft_module *model, int count, weft_tensor *const tensors[], FILE *table);

#endif
