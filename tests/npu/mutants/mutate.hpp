// Mutations of one program on one device: every line of sync is left out, every ring halved, every write shifted, one
// at a time. What was left out is necessary if an oracle that knows nothing of the checker says so: the closure of the
// mutant's log is not clean, or its results are others, or depend on the order of execution. Every mutant without
// something necessary must be reported, and no other.
//
// One kind is beyond a checker of sync: a write that is shifted within bytes that an earlier write has filled
// makes another program, wrong but as deterministic as the right one. These are counted by themselves.
#pragma once

#include <gtest/gtest.h>

#include <array>
#include <iostream>

#include "tests/npu/programs/small_problems.hpp"
#include "tests/support/turns.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/tests/check/oracle.hpp"

namespace inlay::npu::test {

inline constexpr std::uint64_t random_orders = 3;

inline std::string text(const std::vector<Report>& reports) {
  std::string all;
  for (const Report& report : reports)
    all += "\n  " + std::string(name(report.kind)) + " x" + std::to_string(report.repeated) + ": " + report.message;
  return all;
}

// Programs and devices take turns, so that each meets every second one of the others. INLAY_SWEEP=whole: all of them,
// as docs/npu.md counts.
inline bool has_its_turn(std::size_t program, std::size_t device) {
  return (program + device) % 2 == 0 || inlay::test::is_set("INLAY_SWEEP", "whole");
}

inline bool same_results_in_every_order(const Problem& program, const Device& device, Options options,
                                        const std::vector<std::byte>& expected) {
  const auto same = [&](Policy policy, std::uint64_t seed) {
    options.policy = policy;
    options.seed = seed;
    options.record = false;
    return program.run(device, options).output == expected;
  };
  if (!same(Policy::late_dma, 0) || !same(Policy::early_dma, 0)) return false;
  for (std::uint64_t seed = 1; seed <= random_orders; ++seed)
    if (!same(Policy::random, seed)) return false;
  return true;
}

struct Count {
  int mutants = 0, necessary = 0, caught = 0, other_programs = 0;

  Count& operator+=(const Count& other) {
    mutants += other.mutants;
    necessary += other.necessary;
    caught += other.caught;
    other_programs += other.other_programs;
    return *this;
  }
};

inline std::ostream& operator<<(std::ostream& out, const Count& count) {
  return out << "mutants " << count.mutants << ", necessary " << count.necessary << ", caught " << count.caught
             << ", other programs " << count.other_programs;
}

inline Count mutate(const Problem& program, const Device& device) {
  const Ran base = program.run(device, {});
  const auto silent = check(base.outcome.log, device);
  EXPECT_TRUE(base.outcome.ok()) << text(base.outcome.reports);
  EXPECT_TRUE(silent.empty()) << text(silent);
  EXPECT_TRUE(Oracle(base.outcome.log, device).clean());
  EXPECT_TRUE(same_results_in_every_order(program, device, {}, base.output));
  const auto removable = redundant_syncs(base.outcome.log, device);
  std::cout << program.name << " on " << device.name << ", " << base.outcome.log.entries.size() << " entries; "
            << removable.size() << " lines removable" << text(removable) << "\n";

  Count all;
  std::array<Count, mutation_kinds> of_kind{};
  std::array<std::uint32_t, mutation_kinds> index{};
  for (const MutationPoint& point : base.outcome.points) {
    const auto kind = static_cast<std::size_t>(point.kind);
    Options options;
    options.mutation = Mutation{point.kind, index[kind]++};
    const Ran mutant = program.run(device, options);
    const auto found = check(mutant.outcome.log, device);
    const bool reported = !mutant.outcome.ok() || !found.empty();
    const bool wrong = mutant.output != base.output;
    // Wrong results are enough, but for a shift, which may make another program.
    const bool judged = wrong && point.kind != MutationKind::shift_offset;
    const bool sound = !judged && Oracle(mutant.outcome.log, device).clean() &&
                       same_results_in_every_order(program, device, options, mutant.output);
    const bool other_program = wrong && sound && mutant.outcome.ok() && point.kind == MutationKind::shift_offset;
    const bool necessary = !sound || (wrong && !other_program);
    EXPECT_TRUE(reported == necessary || (reported && program.may_hide))
        << (reported ? "reported: " : "missed: ") << name(point.kind) << " " << point.verb << " at "
        << line_of(point.site) << " of " << program.name << " on " << device.name << text(mutant.outcome.reports)
        << text(found);
    const Count one{1, necessary, necessary && reported, other_program};
    of_kind[kind] += one;
    all += one;
  }
  for (std::size_t kind = 0; kind < mutation_kinds; ++kind)
    std::cout << "  " << name(static_cast<MutationKind>(kind)) << ": " << of_kind[kind] << "\n";
  std::cout << "  all: " << all << "\n";
  EXPECT_GT(all.necessary, 0);
  EXPECT_EQ(all.caught, all.necessary);
  return all;
}

}  // namespace inlay::npu::test
