// Between the matrix unit and the vector unit: rings that take the device's shortest way. Where a path or a
// shared memory joins the two, tiles take it; else they pass through a workspace in global memory.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "npu_kernels/machine/ring.hpp"
#include "npu_kernels/machine/tensor.hpp"

namespace inlay::npu {

// Tiles on their way from the accumulator to the vector unit: drained into its memory, or where there is no
// such path through global memory.
template <class Machine> class ToVector {
 public:
  ToVector(Machine& m, const std::string& name, Shape shape, const Tensor& workspace)
      : m_(m),
        direct_(m.device().path(Space::accumulator, Space::vector) != nullptr),
        tiles_(m.ring(name, Space::vector, 2, shape, DType::f32, direct_ ? Pipe::drain : Pipe::load_vector,
                      Pipe::vector)) {
    if (direct_) return;
    const index first = m.block_idx() * 2 * shape.rows;
    through_.emplace(
        m.ring(name + " in global memory",
               {workspace.row_slice(first, shape.rows), workspace.row_slice(first + shape.rows, shape.rows)},
               Pipe::drain, Pipe::load_vector));
  }
  Tensor acquire() { return direct_ ? tiles_.acquire() : through_->acquire(); }
  void commit(index rows, index columns) {
    if (direct_) return tiles_.commit();
    through_->commit();
    const Tensor from = through_->wait(), to = tiles_.acquire();  // as arguments they have no order
    m_.copy(to.slice(0, rows, 0, columns), from.slice(0, rows, 0, columns));
    tiles_.commit();
    through_->release();
  }
  Tensor wait() { return tiles_.wait(); }
  void release() { tiles_.release(); }

 private:
  Machine& m_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_;
};

// Weights on their way from the vector unit to the left operand of mm2: a view of the vector unit's memory
// where left is that memory, else through global memory into staging.
template <class Machine> class ToLeft {
 public:
  ToLeft(Machine& m, index depth, Shape shape, DType dtype, const Tensor& workspace)
      : m_(m),
        direct_(m.feeds_are_views() && m.device().same_memory(Space::vector, Space::left)),
        tiles_(m.ring("weights", Space::vector, static_cast<std::uint32_t>(depth), shape, dtype, Pipe::vector,
                      direct_ ? Pipe::feed : Pipe::store)) {
    if (direct_) return;
    std::vector<Tensor> parts;
    for (index i = 0; i < depth; ++i)
      parts.push_back(workspace.row_slice((m.block_idx() * depth + i) * shape.rows, shape.rows));
    through_.emplace(m.ring("weights in global memory", std::move(parts), Pipe::store, Pipe::load));
    staged_.emplace(m.ring("staged weights", Space::staging, 2, shape, dtype, Pipe::load, Pipe::feed, Layout::nz));
  }
  Tensor acquire() { return tiles_.acquire(); }
  void commit(index rows, index columns) {
    tiles_.commit();
    if (direct_) return;
    const Tensor from = tiles_.wait(), to = through_->acquire();
    m_.copy(to.slice(0, rows, 0, columns), from.slice(0, rows, 0, columns));
    through_->commit();
    tiles_.release();
  }
  Tensor wait(index rows, index columns) {
    if (direct_) return tiles_.wait();
    const Tensor from = through_->wait(), to = staged_->acquire();
    m_.nd2nz(to.slice(0, rows, 0, columns), from.slice(0, rows, 0, columns));
    staged_->commit();
    through_->release();
    return staged_->wait();
  }
  void release() { direct_ ? tiles_.release() : staged_->release(); }

 private:
  Machine& m_;
  bool direct_;
  Ring tiles_;
  std::optional<Ring> through_, staged_;
};

}  // namespace inlay::npu
