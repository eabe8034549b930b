/* Reading values from shards of this process, which devices may have, into the program's memory. */
#ifndef WEFT_SRC_ARRAYS_READ_H
#define WEFT_SRC_ARRAYS_READ_H

#include "tensor/tensor.h"

/* Whether the process of a world with devices that has no other one has all values in shards of whole rows: then reading them moves
 * nothing. With several processes replicas may differ, so that all get the values of the first one. */
bool weft_is_read_in_place(const weft_layout *layout);
/* BLOCKS: copies the whole of such a tensor, panel by panel as they come to main memory; it does not wait for calls
 * after the last one that wrote to it. As weft_shard_read(), but that a world that breaks meanwhile leaves undefined values. */
weft_status weft_tensor_read_in_place(const char *function, const weft_tensor_impl *tensor, void *global);
/* BLOCKS: copies a hosted shard likewise. */
weft_status weft_shard_read_in_place(const char *function, const weft_tensor_impl *tensor, int local_rank, void *host);

#endif
