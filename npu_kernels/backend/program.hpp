// What an operator is on the tile machine: in npu_kernels/<op>.cpp
//
//   Status   declined(const Device&, const RmsNorm<Host>&);                      optional: what the page declares
//   Program  program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);      binds its views, takes its workspace
//   template struct Operator<RmsNorm<Host>>;                                    (backend/operator.hpp)
//
// program() runs once for the bytes of workspace, once for the price and once for the results; it reads lists of the
// host (lengths), but no tensor. Workspace is memory.workspace(..): in a run the caller's.
#pragma once

#include <functional>

#include <inlay/npu.hpp>

#include "npu_kernels/machine/device/problem.hpp"
#include "npu_kernels/machine/run/machine.hpp"
#include "npu_kernels/price/price.hpp"

namespace inlay::npu {

struct Program {
  std::function<void(Core&)> body;  // holds its operands by value
  Problem problem{};
  Launch launch{};
};

// What a program may choose by.
struct Choices {
  NpuActivations activations = NpuActivations::exact;
  Prices* prices = nullptr;  // of its variants
};

// Workers that are worth their start: each gets so many rows, or tiles, at least.
inline std::uint32_t cores_for(index pieces, index pieces_of_a_core, std::uint32_t cores) {
  const index wanted = (pieces + pieces_of_a_core - 1) / pieces_of_a_core;
  return static_cast<std::uint32_t>(wanted < 1 ? 1 : wanted > index{cores} ? index{cores} : wanted);
}

}  // namespace inlay::npu
