// What functional mode did for a program, step by step in the order in which it did it. Played again, at other
// addresses of global memory, it does the same without the program, its streams, or an allocation.
//
//   a step   a verb's work on bytes, all that it needs by value
//   a read   scalar_read's: a program may decide by it, so a log holds for as long as the same is read again. Where
//            something else is read, the steps so far are right; the program runs again, leaves them out, and goes on
//            from there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "tile_machine/arithmetic/tiles.hpp"

namespace inlay::npu {

class ReplayLog {
 public:
  // Of a program of more bytes than `most` nothing is kept: it runs each time.
  explicit ReplayLog(std::size_t most = std::size_t{1} << 26) : most_(most) {}

  // Bytes of a step that point to a tensor: of global memory they move with its buffer.
  struct Pointer {
    const Tensor& of;
    std::byte* const& bytes;  // a member of the step
  };

  // Where the buffers of global memory are from now on.
  void place(std::span<std::byte* const> buffers);
  // Does every step. False: there is none, or a read gave something else; then the steps before it have been done.
  bool play();
  bool started() const { return played_ > 0; }
  // The program runs (again): steps that have been played are passed over, others done and kept, until it ends.
  void resume();
  void end() { whole_ = !too_long_; }

  template <class Step> void add(const Step& step, std::initializer_list<Pointer> pointers = {}) {
    static_assert(std::is_trivially_copyable_v<Step> && alignof(Step) <= alignment);
    if (too_long_) return run(step);
    if (passes_over()) return;
    std::byte* const kept = keep(&call<Step>, sizeof(Step));
    std::memcpy(kept, &step, sizeof(Step));
    for (const Pointer& pointer : pointers)
      if (pointer.of.space == Space::global && pointer.of.buffer < buffers_.size() && pointer.bytes != nullptr)
        moving_.push_back({reinterpret_cast<std::byte**>(kept + (reinterpret_cast<const std::byte*>(&pointer.bytes) -
                                                                 reinterpret_cast<const std::byte*>(&step))),
                           pointer.of.buffer, pointer.bytes - buffers_[pointer.of.buffer], steps_});
    call<Step>(kept);
    if (bytes_ > most_) give_up();
  }
  double read(const Tile& from);

  std::size_t steps() const { return steps_; }
  std::size_t bytes() const { return bytes_ + moving_.capacity() * sizeof(Moving); }  // of memory
  void clear();

 private:
  using Call = bool (*)(std::byte*);
  struct Header {
    Call call;
    std::size_t bytes;
  };
  struct Chunk {
    std::unique_ptr<std::byte[]> bytes;
    std::size_t size = 0, used = 0;
  };
  struct Place {
    std::size_t chunk = 0, byte = 0;
  };
  struct Moving {
    std::byte** pointer;
    std::uint32_t buffer;
    std::ptrdiff_t offset;
    std::size_t step;  // that it is a part of, counted from 1
  };
  struct Read {
    Tile from;
    double value = 0;
    bool operator()() const;
  };
  static constexpr std::size_t alignment = alignof(std::max_align_t);

  template <class Step> static bool call(std::byte* kept) {
    const Step& step = *std::launder(reinterpret_cast<const Step*>(kept));
    if constexpr (std::is_same_v<decltype(step()), bool>) return step();
    step();
    return true;
  }
  template <class Step> static void run(const Step& step) { step(); }
  bool passes_over();
  void give_up();
  Header* at(Place& place);  // the step there; past the end of a chunk in the next one; null: the end of the log
  static Place behind(const Place& place, const Header& header) {
    return {place.chunk, place.byte + sizeof(Header) + header.bytes};
  }
  std::byte* keep(Call call, std::size_t bytes);

  std::size_t most_, bytes_ = 0;
  bool too_long_ = false, whole_ = false;  // whole: the program has come to its end
  std::vector<Chunk> chunks_;
  std::vector<Moving> moving_;
  std::vector<std::byte*> buffers_;
  std::size_t steps_ = 0, played_ = 0;  // steps that stand; that have been done by the last play
  std::size_t passed_ = 0;              // of those, that the program has come to again
  Place passing_;
};

}  // namespace inlay::npu
