// An operator's program, kept for the next call of its kind. It is a true function of its key: it is made with
// addresses that stand for the operands (to look at an element is a fault, not a stale number), with copies of the
// lists that it declares to read, and with zeros for the scalars that it declares not to. A call gives the operands
// their places.
//
//   key      the operator's name, shapes, strides, types, which operands are one memory, scalars, contents of lists;
//            and whether its weight has been packed, whose blocks are an operand like the others
//   symbol   2^63 + 2^44 (n + 1) + 2^43 for the n-th operand; what a program binds lies within 2^43 bytes of it
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "npu_kernels/backend/any_operator.hpp"
#include "tile_machine/run/replay_log.hpp"

namespace inlay::npu {

struct CachedProgram {
  std::unique_ptr<AnyOperator> op;  // holds the lists that the program may look at as long as it lives
  Program program;
  std::size_t workspace_bytes = 0;
  std::vector<GlobalMemory::Named> tensors;  // each at a symbol, or in a list's copy
  ReplayLog log;                             // of functional mode
  std::size_t log_bytes = 0;                 // as Runtime has counted them
  std::string lacks;                         // what its program asks for and the device has not; empty: nothing
};

}  // namespace inlay::npu
