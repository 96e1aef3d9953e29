// Operands of a walk on their way through the vector unit's memory:
//
//   Input  --load_vector-->  [slot 0 | 1 | 2]  --vector: to f32-->  the program's own arithmetic
//   the program's results  --vector: rounded once-->  [slot 0 | 1 | 2]  --store-->  Output
//
// An Input loads the tiles of the next steps before it hands this step's out, so that the scalar stream, which may
// stand before a full queue, is never what the loads wait for.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "npu_kernels/backend/program.hpp"
#include "npu_kernels/rows/tile_iterator.hpp"

namespace inlay::npu::rows {

// What part of an operand a window takes.
using Part = std::function<NdTensor(const Window&)>;
Part whole_of(const NdTensor& planes);
// How much of a tile a window takes, and how that comes there.
using Extents = std::function<Shape(const Window&)>;
using Load = std::function<void(Core&, const Tensor&, const Window&)>;

// Two tiles are on their way while one is worked on; what comes with them, and is small, has one on its way.
inline constexpr std::uint32_t slots = 3, slots_beside = 2;

class Input {
 public:
  Input(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& planes);
  // Tiles of another shape than the walk's: one row or one column for all, a scale for a group.
  Input(Core& core, std::string_view name, const TileIterator& walk, DType dtype, Shape tile, const Part& part,
        std::uint32_t depth = slots_beside);
  Input(Core& core, std::string_view name, const TileIterator& walk, DType dtype, Shape tile, Extents extents,
        Load load, std::uint32_t depth = slots_beside);

  // The tile of the next step, and those after it are under way.
  Tensor next();
  Tensor wide();  // the tile of the next step in f32, the program's to change
  void done();    // with what either has given

 private:
  void load();

  Core& core_;
  const TileIterator& walk_;
  Extents extents_;
  Load load_;
  Ring ring_;
  Tensor wide_;
  index step_ = 0, loaded_ = 0;
  bool held_ = false;
};

class Output {
 public:
  Output(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& planes);
  Output(Core& core, std::string_view name, DType dtype, Shape tile, Part part, std::uint32_t depth = slots_beside);

  // Where the results of a step go: f32, either into the slot itself or into `spare`.
  Tensor into(const Window& window, const Tensor& spare);
  void store(const Window& window);
  // Results that lie elsewhere, or are no f32.
  void store(const Window& window, const Tensor& results);
  // The slot itself, for results of y's type.
  Tensor open(const Window& window);
  void close(const Window& window);

 private:
  Core& core_;
  DType dtype_;
  Part part_;
  Ring ring_;
  Tensor results_;
  bool direct_ = false;
};

// One row that serves all rows, such as a weight or a bias: in f32 if nothing else is asked for, loaded again only
// where the columns change.
class SharedRow {
 public:
  SharedRow(Core& core, std::string_view name, const TileIterator& walk, const NdTensor& row, DType as = DType::f32);
  // `prepare` is called with what has been loaded.
  const Tensor& at(const Window& window, const std::function<void(const Tensor&)>& prepare = {});

 private:
  Core& core_;
  NdTensor row_;
  Ring ring_;
  Tensor wide_, now_;
  index column_ = -1;
};

// An element that serves a whole tile.
Tensor constant(Core& core, std::string_view name, float value);

// Bytes of a problem: its operands once each.
template <class... Views> std::uint64_t bytes_of(const Views&... views) {
  const auto one = [](const auto& view) { return view.present() ? byte_size(view.dtype, view.size()) : index{0}; };
  return static_cast<std::uint64_t>((index{0} + ... + one(views)));
}

// Cores that are worth their start.
inline std::uint32_t cores_of(const GlobalMemory& memory, const Grid& grid) {
  constexpr index elements_of_a_core = 4096;
  return cores_for(grid.size(), elements_of_a_core, memory.cores());
}

}  // namespace inlay::npu::rows
