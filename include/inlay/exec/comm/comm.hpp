// An engine of several ranks brings its own communication: Comm is a context, a rank among `size`, and three functions
// that all ranks call in the same order. Inlay has it for threads of one process (loop_comm.hpp) and for MPI
// (mpi_comm.hpp); what is made here is that of one rank, which asks nobody.
//
// Whoever waits longer than the deadline, or for a rank that gave up, gets a Status that names that rank. Behind a
// failure nothing works any more: ranks are made anew.
#pragma once

#include <cstddef>
#include <limits>
#include <span>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::exec {

struct Comm {
  // `own`, bytes[rank] of them, of each rank become `all`, one behind the other in the order of ranks. `own` may lie in
  // `all`, in its place.
  using AllGather = Status (*)(void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                               double seconds);
  // Rank 0's bytes become everyone's.
  using Broadcast = Status (*)(void* context, void* bytes, std::size_t count, double seconds);
  // The others get `why` in place of what they wait for, now and later.
  using Abort = void (*)(void* context, std::string_view why);

  static constexpr double forever = std::numeric_limits<double>::infinity();

  void* context = nullptr;
  int rank = 0, size = 1;
  AllGather all_gather = nullptr;
  Broadcast broadcast = nullptr;
  Abort abort = nullptr;
  double deadline = 30;  // seconds that ranks wait for one another while they compute

  bool alone() const { return size == 1; }
};

}  // namespace inlay::exec
