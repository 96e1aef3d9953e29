// Which of two programs is faster, as far as the device's figures are known. Most are assumed: each may lie anywhere
// between `low` and `high` (Provenance). A ranking varies them and tells how often it holds. Figures that stand on one
// source are wrong together: a sample draws one place in its range for each source, and puts all its figures there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct RankOptions {
  std::uint32_t samples = 100;
  std::uint64_t seed = 1;
};

// A figure which alone, at an end of its range, makes the other program the faster one.
struct Flip {
  std::string pointer, confidence;
  double value = 0, at = 0;  // as the description has it, and where it flips
};

// A source all of whose figures, at this end of their ranges, make the other program the faster one.
struct JointFlip {
  std::string source, confidence;
  std::uint32_t figures = 0;
  bool high = false;  // or low
};

struct Ranking {
  double cycles_a = 0, cycles_b = 0;        // as the description stands
  std::uint32_t samples = 0, a_faster = 0;  // of all sources varied at once; equal times count for neither
  std::uint32_t b_faster = 0;
  double low = 0, middle = 0, high = 0;  // of b's cycles / a's over the samples: 5 %, half, 95 %
  std::vector<Flip> flips{};
  std::vector<JointFlip> joint_flips{};    // of sources of several figures
  std::uint32_t figures = 0, sources = 0;  // that were varied

  double share() const { return samples > 0 ? static_cast<double>(a_faster) / samples : 0; }
};

// `description` is the text of a devices/*.json on which both logs were made. Sizes of memories, tiles and flags stay:
// they are in the logs. Errors: those of parse_device and time_events.
tl::expected<Ranking, Status> rank(std::string_view description, const EventLog& a, const EventLog& b,
                                   const RankOptions& options = {});

// One line for each finding.
std::string describe(const Ranking& ranking, std::string_view a, std::string_view b);

}  // namespace inlay::npu
