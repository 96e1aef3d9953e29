// Tiles of a phase of a program: they are given back with it, once everything before has read and written them.
#pragma once

#include <string_view>
#include <vector>

#include "tile_machine/run/core.hpp"

namespace inlay::npu {

class Scratch {
 public:
  explicit Scratch(Core& core) : core_(core) {}
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() {
    if (core_.unwinding()) return;
    core_.barrier_all();
    for (const Tensor& tile : tiles_) core_.release(tile);
  }
  Tensor alloc(std::string_view name, Shape shape, DType dtype) {
    tiles_.push_back(core_.alloc(name, Space::vector, shape, dtype));
    return tiles_.back();
  }

 private:
  Core& core_;
  std::vector<Tensor> tiles_;
};

// The same bytes, of another type of the same size.
inline Tensor as(Tensor tile, DType dtype) {
  tile.dtype = dtype;
  return tile;
}

// Slots of a ring of small things that an epilogue reads: one where flags are few, as each slot may take one.
inline std::uint32_t rings_ahead(const Device& device) { return device.sync.flags < 16 ? 1 : 2; }

}  // namespace inlay::npu
