// Mutations of a run: one line of an unmodified kernel is left out or bent, so that a test can ask
// whether the checker sees it. A point is a line of the source (all its executions on all cores).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "tile_machine/events/source_location.hpp"

namespace inlay::npu {

enum class MutationKind : std::uint8_t {
  drop_sync,     // a set, wait, barrier, barrier_all, cross_*, sync_all, or a ring's acquire, commit or wait
  drop_release,  // a ring's release
  halve_ring,    // its memory has half the slots, its flags still count all of them
  shift_offset   // what a verb writes lies one granule further on
};
inline constexpr int mutation_kinds = 4;
std::string_view name(MutationKind kind);

struct Mutation {
  MutationKind kind = MutationKind::drop_sync;
  std::uint32_t index = 0;  // among the points of its kind, in the order in which a run first meets them
};

struct MutationPoint {
  MutationKind kind = MutationKind::drop_sync;
  const char* verb = "";
  SourceLocation site;
  std::uint64_t executions = 0;
};

class Mutations {
 public:
  explicit Mutations(std::optional<Mutation> wanted) : wanted_(wanted) {}
  // Counts an execution of the point; true: this is the one to mutate.
  bool hit(MutationKind kind, const char* verb, const SourceLocation& site);
  const std::vector<MutationPoint>& points() const { return points_; }

 private:
  std::optional<Mutation> wanted_;
  std::vector<MutationPoint> points_;
};

}  // namespace inlay::npu
