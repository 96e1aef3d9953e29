// A ring: `depth` tiles that one pipe fills and another empties, in order.
//
//   producer   Tensor slot = ring.acquire();   waits until the consumer has released it
//              .. write slot ..; ring.commit();
//   consumer   Tensor slot = ring.wait();      waits until the producer has committed it
//              .. read slot ..; ring.release();
//
// acquire and wait return at once. Their flag is waited for by the verb that first uses the tile (or by commit and
// release, where none does), in the order in which the verb names its operands: so they can be arguments of one verb,
// and which of them C++ evaluates first does not matter.
//
// A ring of tuples has several tiles in a slot and one pair of flags for all of them:
//
//   auto cache = core.ring<2>("cache", {{{"k", ..}, {"scales", ..}}}, {2, Pipe::load, Pipe::feed});
//   const auto [k, scales] = cache.acquire();
//
// A ring is made of flags, one for each slot and direction, or one for all where the device lets as many sets
// stand: acquire = wait(consumer, producer), commit = set(producer, consumer), wait and release likewise.
// The first `depth` acquires need no wait. When the ring ends, the producer takes the sets that are left.
//
// Where left and right are views of staging (Device::feeds_are_views) a ring of them has no memory and no
// flags: load_a binds a slot to the staged tile, and the ring of staged tiles releases late.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "tile_machine/arithmetic/tensor.hpp"
#include "tile_machine/events/source_location.hpp"

namespace inlay::npu {

class MachineCore;  // machine_core.hpp

// `depth` tiles at most on their way from `producer` to `consumer`.
struct Flow {
  std::uint32_t depth = 1;
  Pipe producer = Pipe::load, consumer = Pipe::vector;
  // From the matrix unit to the drain on a device with a unit flag (Sync::unit_flag_bytes): the one follows the other
  // through the tile granule by granule, so that one tile is enough where two would take turns.
  bool unit = false;
};

// A tile of each slot of a ring of tuples.
struct TileForm {
  std::string_view name;
  Space space = Space::vector;
  Shape shape;
  DType dtype = DType::f32;
  Layout layout = Layout::nd;
};

// The flags of a ring, without memory of their own: rings are made and ended with each tile of some programs.
class Flags {
 public:
  void push_back(std::uint16_t id) { ids_[count_++] = id; }
  void clear() { count_ = 0; }
  bool empty() const { return count_ == 0; }
  std::size_t size() const { return count_; }
  std::uint16_t operator[](std::size_t i) const { return ids_[i]; }
  const std::uint16_t* begin() const { return ids_.data(); }
  const std::uint16_t* end() const { return ids_.data() + count_; }

 private:
  std::array<std::uint16_t, 64> ids_{};  // ids that rings may hold
  std::size_t count_ = 0;
};

class Ring {
 public:
  using Site = SourceLocation;

  Ring(Ring&& other) noexcept;
  Ring& operator=(Ring&&) = delete;
  ~Ring();

  Tensor acquire(Site site = Site::current());
  void commit(Site site = Site::current());
  Tensor wait(Site site = Site::current());
  void release(Site site = Site::current());
  std::uint32_t depth() const { return flow_.depth; }

 private:
  friend class MachineCore;
  template <std::size_t> friend class TupleRing;
  Ring(MachineCore& core, Flow flow, Site site) : core_(&core), flow_(flow), site_(site) {}
  std::uint16_t flag(std::uint64_t count) const { return flags_[count % flags_.size()]; }
  std::uint32_t slot(std::uint64_t count) const {
    return first_slot_ + static_cast<std::uint32_t>(count % flow_.depth);
  }
  Tensor tile(std::uint64_t count, std::size_t member = 0) const;

  MachineCore* core_;
  Flow flow_;
  Site site_;
  bool views_ = false, owned_ = true;  // owned: the tiles are released with the ring
  std::size_t members_ = 1;            // tiles of a slot
  std::vector<Tensor> tiles_;          // slot by slot
  Flags flags_;
  std::uint32_t first_slot_ = 0;
  std::vector<std::uint32_t> bound_;  // of views: their numbers, from the oldest that is not released
  std::uint64_t acquired_ = 0, committed_ = 0, waited_ = 0, released_ = 0;
};

template <std::size_t N> class TupleRing {
 public:
  using Site = SourceLocation;

  std::array<Tensor, N> acquire(Site site = Site::current()) {
    const std::uint64_t count = ring_.acquired_;
    ring_.acquire(site);
    return tiles(count);
  }
  void commit(Site site = Site::current()) { ring_.commit(site); }
  std::array<Tensor, N> wait(Site site = Site::current()) {
    const std::uint64_t count = ring_.waited_;
    ring_.wait(site);
    return tiles(count);
  }
  void release(Site site = Site::current()) { ring_.release(site); }
  std::uint32_t depth() const { return ring_.depth(); }

 private:
  friend class Core;
  explicit TupleRing(Ring ring) : ring_(std::move(ring)) {}
  std::array<Tensor, N> tiles(std::uint64_t count) const {
    std::array<Tensor, N> result;
    for (std::size_t member = 0; member < N; ++member) result[member] = ring_.tile(count, member);
    return result;
  }

  Ring ring_;
};

}  // namespace inlay::npu
