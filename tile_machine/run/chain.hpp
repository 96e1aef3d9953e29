// A scope in which the verbs of a pipe wait for one another by themselves:
//
//   const Chain chain = core.chain(Pipe::vector);
//   core.vbinary(VectorOp::mul, x2, x, x);
//   core.vreduce(VectorOp::reduce_sum, sum, x2);       a barrier goes before this one: it reads x2
//   core.vunary(VectorOp::rsqrt, scale, sum);          and before this one
//
// From the footprints it knows which verbs depend on one another, from flags and rings which of these have an order
// already, and puts the barriers that are left, each as late as it can. What another pipe reads still takes a flag or
// a ring. A pipe that sees its own results (Queue::in_order_visible) gets none.
#pragma once

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

class Core;

class [[nodiscard]] Chain {
 public:
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;
  ~Chain();

 private:
  friend class Core;
  Chain(Core& core, Pipe pipe);

  Core& core_;
  Pipe pipe_;
};

}  // namespace inlay::npu
