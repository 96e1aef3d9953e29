// Mutants of logs: from what operators' programs issued, single executions of sync are taken away. A set
// without its wait is easily found; here the two also go together, so that nothing but the order is missing.
// The closure of the mutant's log says what must be reported; of a pair or barrier a report must name the
// very flag or pipe.
#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "tests/npu/programs/small_attention.hpp"
#include "tests/npu/programs/small_linear.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/events/channels.hpp"
#include "tile_machine/tests/check/oracle.hpp"

namespace inlay::npu::test {
namespace {

constexpr std::size_t max_mutants = 60;  // of one log and kind: evenly spread, the closure is slow

// Each template of decode attention, and products in f16 and in int8.
std::vector<Problem> programs() {
  std::vector<Problem> chosen;
  const auto choose = [&](const std::vector<Problem>& all, std::initializer_list<std::string_view> names) {
    for (const Problem& each : all)
      if (std::find(names.begin(), names.end(), each.name) != names.end()) chosen.push_back(each);
  };
  choose(small_attention(), {"incre_flash_attention, one head", "incre_flash_attention, two heads in splits",
                             "incre_flash_attention, in splits", "incre_flash_attention, vectors in splits"});
  choose(small_linear(), {"linear f16, columns beyond a tile", "linear_int8"});
  EXPECT_EQ(chosen.size(), 6u);
  return chosen;
}

bool is_barrier(const Entry& entry) {
  return entry.event == Event::barrier || entry.event == Event::barrier_all || entry.event == Event::sync_all;
}

EventLog without(const EventLog& log, const std::set<std::uint32_t>& dropped) {
  EventLog rest = log;
  rest.entries.clear();
  for (std::uint32_t e = 0; e < log.entries.size(); ++e)
    if (dropped.count(e) == 0) rest.entries.push_back(log.entries[e]);
  return rest;
}

// A set and the wait that takes it.
std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs_of(const EventLog& log) {
  const std::vector<std::uint32_t> partners = partners_of(log, channels_of(log));
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::uint32_t e = 0; e < log.entries.size(); ++e)
    if (sets(log.entries[e].event) && partners[e] != no_entry) pairs.emplace_back(e, partners[e]);
  return pairs;
}

// How a report calls what is missing.
std::string called(const Entry& entry) {
  const auto pipe = [](Pipe pipe) { return std::string(name(pipe)); };
  if (sets(entry.event) || waits(entry.event)) return "set/wait(" + pipe(entry.from) + ", " + pipe(entry.to) + ")";
  return entry.event == Event::barrier ? "barrier(" + pipe(entry.pipe) + ")" : "sync_all";
}

struct Count {
  int mutants = 0, necessary = 0, caught = 0, named = 0;  // named: a report says what is missing
};

void judge(const EventLog& log, const Device& device, const std::vector<std::set<std::uint32_t>>& mutants,
           const std::string& what, Count& count) {
  const std::size_t step = mutants.size() / max_mutants + 1;
  for (std::size_t i = 0; i < mutants.size(); i += step) {
    const EventLog mutant = without(log, mutants[i]);
    const bool necessary = !Oracle(mutant, device).clean();
    const auto reports = check(mutant, device);
    EXPECT_EQ(!reports.empty(), necessary) << what << " " << *mutants[i].begin() << " on " << device.name << ": "
                                           << (reports.empty() ? "" : reports.front().message);
    ++count.mutants;
    count.necessary += necessary;
    count.caught += necessary && !reports.empty();
    const std::string missing = called(log.entries[*mutants[i].begin()]);
    // Between cores a report has "cross_set/cross_wait or sync_all".
    count.named += std::any_of(reports.begin(), reports.end(), [&](const Report& report) {
      return report.missing == missing || (missing == "sync_all" && report.missing.ends_with(missing));
    });
  }
}

TEST(LogMutants, OfOperatorsPrograms) {
  Count alone, together;
  for (const Device& device : devices_for_attention())
    for (const Problem& program : programs()) {
      const EventLog log = program.run(device, {}).outcome.log;
      std::vector<std::set<std::uint32_t>> singles, doubles;
      for (std::uint32_t e = 0; e < log.entries.size(); ++e) {
        const Event event = log.entries[e].event;
        if (sets(event) || waits(event)) singles.push_back({e});
        if (is_barrier(log.entries[e])) doubles.push_back({e});
      }
      for (const auto& [set, wait] : pairs_of(log)) doubles.push_back({set, wait});
      judge(log, device, singles, program.name + ", one of a pair:", alone);
      judge(log, device, doubles, program.name + ", a pair or barrier:", together);
    }
  std::cout << "half a pair: mutants " << alone.mutants << ", necessary " << alone.necessary << ", caught "
            << alone.caught << "\npairs and barriers: mutants " << together.mutants << ", necessary "
            << together.necessary << ", caught " << together.caught << ", named by a report " << together.named << "\n";
  EXPECT_EQ(alone.necessary, alone.mutants);
  EXPECT_GT(together.necessary, 0);
  EXPECT_EQ(together.named, together.necessary);
  EXPECT_LT(together.necessary, together.mutants);
}

// What redundant_syncs lists are exactly the groups of lines that the closure can do without.
TEST(LogMutants, RemovableLinesAreThoseThatTheClosureCanSpare) {
  int groups = 0, removable = 0;
  for (const Device& device : devices_for_attention())
    for (const Problem& program : programs()) {
      const EventLog log = program.run(device, {}).outcome.log;
      const auto site = [&](std::uint32_t e) {
        const Entry& entry = log.entries[e];
        return std::tuple(std::string(entry.site.file_name()), entry.site.line(), entry.site.column(),
                          is_barrier(entry));
      };
      // Lines get the number of their group; a pair joins two groups.
      std::map<decltype(site(0)), std::uint32_t> group;
      for (std::uint32_t e = 0; e < log.entries.size(); ++e)
        if (log.entries[e].event != Event::work && log.entries[e].event != Event::allocate &&
            log.entries[e].event != Event::release)
          group.emplace(site(e), e);
      for (const auto& [set, wait] : pairs_of(log)) {
        const std::uint32_t into = group.at(site(set)), from = group.at(site(wait));
        for (auto& [line, number] : group)
          if (number == from) number = into;
      }
      std::map<std::uint32_t, std::set<std::uint32_t>> members;
      for (std::uint32_t e = 0; e < log.entries.size(); ++e)
        if (const auto found = group.find(site(e)); found != group.end() && log.entries[e].event != Event::work)
          members[found->second].insert(e);
      std::set<std::uint32_t> expected, listed;  // by first entry
      for (const auto& [number, entries] : members)
        if (Oracle(without(log, entries), device).clean()) expected.insert(number);
      for (const Report& report : redundant_syncs(log, device)) listed.insert(group.at(site(report.first.entry)));
      EXPECT_EQ(listed, expected) << program.name << " on " << device.name;
      groups += static_cast<int>(members.size());
      removable += static_cast<int>(listed.size());
    }
  std::cout << groups << " groups of sync lines, " << removable << " removable\n";
  EXPECT_GT(removable, 0);
}

}  // namespace
}  // namespace inlay::npu::test
