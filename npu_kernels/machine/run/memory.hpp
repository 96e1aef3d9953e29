// The memories of a machine: bytes, who allocated them, and in checked mode who wrote them last.
//
// Every byte of scratch starts poisoned (0xff: a NaN in f32, f16 and bf16). The shadow keeps for each
// byte the buffer through which it was last written; a read through another one is uninitialised, also
// where an earlier tenant of the place left its data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "npu_kernels/machine/arithmetic/tensor.hpp"
#include "npu_kernels/machine/device/device.hpp"
#include "npu_kernels/machine/tape/tape.hpp"

namespace inlay::npu {

enum class Use : std::uint8_t { in, out, in_out };  // of a tensor in global memory, by the kernels

// First fit over the free ranges of one memory of one core.
class Allocator {
 public:
  explicit Allocator(std::uint64_t bytes);
  std::optional<std::uint64_t> take(std::uint64_t bytes, std::uint64_t align);
  void give(std::uint64_t begin, std::uint64_t bytes);
  std::uint64_t largest() const;  // free range

 private:
  std::map<std::uint64_t, std::uint64_t> free_;  // begin -> bytes
};

class Memories {
 public:
  // Not backed: buffers have addresses and no bytes.
  Memories(const Device& device, std::uint32_t cores, bool shadowed, bool backed = true);

  // A tensor that lives in the caller's memory; `bytes` of it are given an address.
  std::uint32_t add_global(std::string name, std::byte* data, std::uint64_t bytes, Use use, SourceLocation site);
  // A poisoned one that the machine keeps.
  std::uint32_t add_workspace(std::string name, std::uint64_t bytes, SourceLocation site);
  // None where `bytes` do not fit.
  std::optional<std::uint32_t> allocate(std::uint32_t core, Space space, std::string name, std::uint64_t bytes,
                                        SourceLocation site);
  void release(std::uint32_t buffer);
  void restart();  // before another run: scratch is empty and poisoned, outputs and workspace are unwritten

  std::uint64_t largest_free(std::uint32_t core, Space space) const;
  const std::vector<Buffer>& buffers() const { return buffers_; }
  const Buffer& buffer(std::uint32_t id) const { return buffers_[id]; }
  bool live(std::uint32_t id) const { return state_[id].live; }
  Use use(std::uint32_t id) const { return state_[id].use; }
  bool inside(const Tensor& tensor) const;  // all its bytes are its buffer's
  std::byte* data(const Tensor& tensor) const {
    const State& state = state_[tensor.buffer];
    return state.data == nullptr ? nullptr : state.data + (tensor.begin - buffers_[tensor.buffer].begin);
  }

  // Of the shadow. The first byte of the footprint that its buffer has not written; none: all are there.
  std::optional<std::uint64_t> unwritten(const Footprint& footprint) const;
  void written(const Footprint& footprint);
  std::optional<std::uint64_t> unwritten_output(std::uint32_t buffer) const;

 private:
  struct Scratch {
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<std::uint32_t[]> writer;
    Allocator allocator;
    std::uint64_t prepared = 0;  // bytes from the start that are poisoned or in use: no more than a run needs
  };
  struct State {
    std::byte* data = nullptr;
    bool live = true;
    Use use = Use::in_out;
    std::vector<std::uint32_t> writer;  // global memory, except inputs
    std::vector<std::byte> workspace;
  };
  Scratch& scratch(std::uint32_t core, std::uint32_t memory) {
    return scratch_[core * (device_.memories.size() - 1) + memory - 1];
  }
  std::uint32_t add(Buffer buffer, State state);
  // The shadow of the byte at `begin`; null: always valid.
  std::uint32_t* writers(const Footprint& footprint);

  const Device& device_;
  bool shadowed_, backed_;
  std::uint64_t next_global_ = 0;
  std::size_t permanent_ = 0;  // buffers of global memory, made before the run
  std::vector<Scratch> scratch_;
  std::vector<Buffer> buffers_;
  std::vector<State> state_;
};

}  // namespace inlay::npu
