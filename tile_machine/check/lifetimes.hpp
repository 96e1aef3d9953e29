// The lives of allocations: bytes read before anything wrote them, uses after release, two allocations in one
// place. Only buffers with an `allocate` on the log are watched; operands in global memory come initialised.
#pragma once

#include <cstdint>
#include <vector>

#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"

namespace inlay::npu {

class Lifetimes {
 public:
  struct Finding {
    ReportKind kind;
    std::uint32_t entry, earlier;  // earlier: the release, or the allocation that is in the way
    std::uint32_t buffer;
    std::uint64_t byte;  // the first that is affected, from the start of its memory
  };

  explicit Lifetimes(const EventLog& log);

  // Entries come in an order in which they can run. A byte counts as written once a write of it has come: if
  // nothing orders the read after that write, it is a race, and reported as one.
  const std::vector<Finding>& visit(std::uint32_t entry);

 private:
  struct Bytes {  // of one buffer: which are written
    std::vector<std::uint64_t> bits;
    std::uint64_t missing = 0;
    std::uint32_t allocated = no_entry, released = no_entry;
  };

  void allocate(std::uint32_t entry);
  template <class Visit> void each_run(const Footprint& footprint, Visit&& visit) const;
  void read(std::uint32_t entry, const Footprint& footprint);
  void write(const Footprint& footprint);

  const EventLog& log_;
  std::vector<Bytes> bytes_;         // by buffer
  std::vector<std::uint32_t> live_;  // buffers
  std::vector<Finding> found_;
};

}  // namespace inlay::npu
