// The state of a run, which its cores share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "tile_machine/arithmetic/tiles.hpp"
#include "tile_machine/run/memory.hpp"
#include "tile_machine/run/mutation.hpp"
#include "tile_machine/run/scheduler.hpp"
#include "tile_machine/run/script.hpp"
#include "tile_machine/tape/report.hpp"
#include "tile_machine/tape/tape.hpp"

namespace inlay::npu {

// Functional mode has no scheduler, tape or mutations.
struct Run {
  const Device& device;
  std::uint32_t cores;
  std::vector<std::uint8_t> kinds;  // of the streams of each core, as in Tape::streams
  Memories& memories;
  Reports reports{};
  Streams& streams;
  Scheduler* scheduler = nullptr;
  Tape* tape = nullptr;
  Mutations* mutations = nullptr;
  std::vector<std::uint64_t> meetings{};          // functional mode: sync_all's by stream,
  std::map<ChannelId, std::uint64_t> standing{};  // sets between streams and cores that stand
  bool compute = true;                            // Options::compute
  bool local_footprints = true;                   // .. and its footprints
  tiles::HostProduct product{};                   // of functional mode
  tiles::HostBuffers* host = nullptr;             // .. and its space
  Script* script = nullptr;                       // of functional mode, where one is kept
  bool failed = false;                            // after a report that leaves work out
  std::size_t entries = 0, most_entries = 0;      // of checked mode; Options::entries
  bool full = false;                              // there are so many, or there is no memory for another one
};

// Ends a program whose tape is full, as not even the rest of its loops is worth its time: thrown where a ring's slot is
// acquired, caught by the machine.
struct TapeIsFull {};

}  // namespace inlay::npu
