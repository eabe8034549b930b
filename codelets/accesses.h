/* The accesses of every kernel: see access.h. */
#ifndef WEFT_CODELETS_ACCESSES_H
#define WEFT_CODELETS_ACCESSES_H

#include "codelets/access.h"

void weft_copy_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_rearrange_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_reduce_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_elementwise_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                               void *context);
void weft_constant_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_matmul_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_pack_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit, void *context);
void weft_embedding_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                             void *context);
void weft_embedding_backward_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                                      void *context);
void weft_local_map_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                             void *context);
/* The accesses of every kernel on views: weft_kernel_args. */
void weft_kernel_call_accesses(const void *arguments, int num_operands, weft_kernel_visitor visit,
                               void *context);

#endif
