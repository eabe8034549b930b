/** \file
 * weft: distributed tensors as StarPU task graphs. Includes the whole public interface except <weft/mpi.h>. */
#ifndef WEFT_WEFT_H
#define WEFT_WEFT_H

#include <weft/autograd.h>
#include <weft/base.h>
#include <weft/boxes.h>
#include <weft/checkpoint.h>
#include <weft/dlpack.h>
#include <weft/explain.h>
#include <weft/ghosts.h>
#include <weft/graph.h>
#include <weft/graph_shard.h>
#include <weft/index_list.h>
#include <weft/local_map.h>
#include <weft/mesh.h>
#include <weft/module.h>
#include <weft/ops.h>
#include <weft/placement.h>
#include <weft/predict.h>
#include <weft/regions.h>
#include <weft/runtime.h>
#include <weft/scalapack.h>
#include <weft/sparse.h>
#include <weft/tensor.h>

#endif
