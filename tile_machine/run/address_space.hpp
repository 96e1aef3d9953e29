// Addresses of the host's memory: buffers that share a byte lie in one block, and the byte has one address.
//
//   host      |..q..k..v..q..k..v..|       |..y..|
//             ^ a view of q, one of k ..   ^ ..
//   machine   |block 0             |pad|block 1|       in the order in which the buffers were named
//
// A buffer without data (a log is made without) shares no byte with any other.
//
// The shadow of a block says of each byte what it holds; blocks that are only read or updated have none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"

namespace inlay::npu {

class AddressSpace {
 public:
  // A buffer from `first` on; elements are the bytes that are its own, as offsets from there. Workspace holds nothing.
  struct Buffer {
    const std::byte* first = nullptr;
    std::uint64_t bytes = 0;
    const std::vector<Region>* elements = nullptr;
    Use use = Use::in_out;
    bool workspace = false;
  };

  // Gives each buffer its address; with `shadowed` outputs and workspace start unwritten.
  std::vector<std::uint64_t> lay_out(const std::vector<Buffer>& buffers, bool shadowed);

  // The first of the bytes (`region` holds addresses) that nothing has written; none: all are there.
  std::optional<std::uint64_t> unwritten(const Region& region) const;
  // The first byte that the kernels have not written, whatever the host left there.
  std::optional<std::uint64_t> untouched(const Region& region) const;
  void written(const Region& region);

 private:
  enum class Byte : std::uint8_t { garbage, host, kernel };  // who wrote it
  struct Block {
    std::uint64_t begin = 0, bytes = 0;
    std::vector<Byte> shadow;
  };
  std::optional<std::uint64_t> first_of(const Region& region, bool (*wanted)(Byte)) const;
  const Block* block_of(std::uint64_t address) const;
  void mark(Block& block, const Region& region, Byte value);

  std::vector<Block> blocks_;  // by address
};

}  // namespace inlay::npu
