// The memories of a machine: bytes, who allocated them, and in checked mode who wrote them last.
//
// Every byte of scratch starts poisoned (0xff: a NaN in f32, f16 and bf16). The shadow keeps for each
// byte the buffer through which it was last written; a read through another one is uninitialised, also
// where an earlier tenant of the place left its data.
//
// Global memory is the host's (address_space.hpp): a byte has one address, whichever buffers share it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/run/address_space.hpp"

namespace inlay::npu {

// An address with no memory behind it, of an operand whose elements nobody may look at: a program is made with such,
// and kept for others (npu_kernels/backend/prepared.hpp).
inline bool is_symbol(const std::byte* address) { return reinterpret_cast<std::uintptr_t>(address) >> 63 != 0; }

// First fit over the free ranges of one memory of one stream.
class Allocator {
 public:
  explicit Allocator(std::uint64_t bytes) { reset(bytes); }
  void reset(std::uint64_t bytes);  // all of it is free
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t align);
  void give(std::uint64_t begin, std::uint64_t bytes);
  std::uint64_t largest() const;  // free range

 private:
  struct Range {
    std::uint64_t begin, bytes;
  };
  std::vector<Range> free_;  // by begin; its room is kept from one run to the next
};

class Memories {
 public:
  // Not backed: buffers have addresses and no bytes.
  Memories(const Device& device, std::uint32_t cores, std::uint32_t streams, bool shadowed, bool backed = true);

  // A tensor that lives in the caller's memory: `elements` are its bytes, as offsets from `data`.
  std::uint32_t add_global(std::string name, std::byte* data, std::vector<Region> elements, Use use,
                           SourceLocation site);
  // A poisoned one, in the caller's memory or (null) in the machine's.
  std::uint32_t add_workspace(std::string name, std::uint64_t bytes, std::byte* lent, SourceLocation site);
  // None where `bytes` do not fit.
  std::optional<std::uint32_t> allocate(std::uint32_t core, std::uint8_t stream, Space space, std::string name,
                                        std::uint64_t bytes, SourceLocation site);
  void release(std::uint32_t buffer);
  void forget();  // all tensors of global memory
  // Before another run: scratch is empty and poisoned, outputs and workspace are unwritten. `goes_on`: no byte changes.
  void restart(bool goes_on = false);

  std::uint64_t largest_free(std::uint32_t core, std::uint8_t stream, Space space) const;
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const Buffer& buffer(std::uint32_t id) const { return buffers_[id]; }
  std::size_t permanent() const { return permanent_; }
  std::byte* first_byte(std::uint32_t id) const { return state_[id].data; }
  bool live(std::uint32_t id) const { return state_[id].live; }
  Use use(std::uint32_t id) const { return state_[id].use; }
  std::byte* data(const Tensor& tensor) const {
    const State& state = state_[tensor.buffer];
    if (state.data == nullptr || is_symbol(state.data)) return nullptr;  // a log is made without data
    return state.data + (tensor.begin - state.origin);
  }
  // Where byte `begin` of a tensor of the buffer lies in its memory. A buffer of global memory counts its bytes from
  // 0: where it lies is known when all of them are.
  std::uint64_t address(std::uint32_t id, std::uint64_t begin) const {
    return buffers_[id].begin + (begin - state_[id].origin);
  }

  // Of the shadow; without one all is there. The first byte of the footprint that its buffer has not written; none: all
  // are there.
  std::optional<std::uint64_t> unwritten(const Footprint& footprint) const;
  void written(const Footprint& footprint);
  std::optional<std::uint64_t> unwritten_output(std::uint32_t buffer) const;

 private:
  struct Scratch {
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<std::uint32_t[]> writer;
    Allocator allocator;
    std::uint64_t run = 0;       // that it was emptied for
    std::uint64_t prepared = 0;  // bytes from the start that are poisoned or in use: no more than a run needs
  };
  struct State {
    std::byte* data = nullptr;
    bool live = true;
    Use use = Use::in_out;
    std::uint64_t origin = 0;          // what Tensor::begin is at the buffer's first byte
    std::vector<Region> elements;      // of global memory: the bytes that are the buffer's, from its first one
    std::vector<std::byte> workspace;  // the machine's own
  };
  // Emptied when a run first comes to it: a small program on a device of many cores has few to empty.
  Scratch& scratch(std::uint32_t core, std::uint8_t stream, std::uint32_t memory) {
    Scratch& place = scratch_[(core * streams_ + stream) * (device_.memories.size() - 1) + memory - 1];
    if (place.run == run_) return place;
    place.run = run_;
    place.allocator.reset(device_.memories[memory].bytes);
    place.prepared = 0;
    return place;
  }
  std::uint32_t add(Buffer buffer, State state);
  // Of scratch: the shadow of the byte at `begin`; null: always valid.
  std::uint32_t* writers(const Footprint& footprint);

  const Device& device_;
  std::uint32_t streams_;  // of a core
  bool shadowed_, backed_;
  AddressSpace global_;
  std::uint64_t run_ = 0;      // counts restarts
  bool poisons_ = true;        // what a run allocates
  std::size_t permanent_ = 0;  // buffers of global memory, made before the run
  std::vector<Scratch> scratch_;
  std::vector<Buffer> buffers_;
  std::vector<State> state_;
};

}  // namespace inlay::npu
