// How an operator is computed at any level: each specialises this at the end of its header.
//
//   template <> struct Kernels<RmsNorm<Host>> {
//     template <class Level> static Status compute(const Parallel&, const RmsNorm<Host>&, Workspace);
//     template <class Level> static std::size_t scratch_bytes(const Parallel&, const RmsNorm<Host>&);
//   };
//
// cpu_kernels/<op>.cpp makes the library's functions of it, one level an object. inlay/cpu_inline.hpp calls it, so that
// a unit compiles the operators that it runs and no others.
#pragma once

namespace inlay::cpu {

template <class Op> struct Kernels;

}  // namespace inlay::cpu
