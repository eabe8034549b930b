/* Which rank holds which part of a tensor, drawn as text or SVG. PURE. */
#ifndef WEFT_SRC_LAYOUT_DRAWING_H
#define WEFT_SRC_LAYOUT_DRAWING_H

#include <stdio.h>

#include "layout/layout.h"

/* The shards of a layout form a grid: along a tensor dimension the intervals depend on the mesh dimensions
 * that shard it alone. One dimension goes down, one across; a grid of more dimensions is drawn as several
 * planes. A cell names the ranks that hold it: "0,1" are replicas, "0 + 1" are addends. */
typedef struct weft_drawing weft_drawing;

/* NULL: no memory. The layout must outlive it. */
weft_drawing *weft_drawing_new(const weft_layout *layout);
void weft_drawing_free(weft_drawing *drawing);

/* `head`: the first line. Check ferror() afterwards. False: no memory, nothing is written. */
bool weft_drawing_print(const weft_drawing *drawing, const char *head, bool svg, FILE *file);

#endif
