#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/tape/sites.hpp"

namespace inlay::npu {
namespace {

bool is_sync(Event event) {
  return sets(event) || waits(event) || event == Event::barrier || event == Event::barrier_all ||
         event == Event::sync_all;
}

// Everything ordered, no flag too many, nothing hangs. Stops at the first fault.
bool sound(const Tape& tape, const Device& device, const std::vector<bool>& dropped) {
  const Order order = order_of(tape, device, dropped);
  if (!order.blocked.empty() || !order.overruns.empty()) return false;
  Clocks clocks(tape, device, order);
  History history(tape, device, 1);
  while (clocks.next())
    if (!clocks.has_room() || !clocks.has_turn() || !history.visit(clocks).empty()) return false;
  return true;
}

// Sync entries by what can only go together: a barrier's line; the lines of sets and the lines of the waits
// that take their flags.
class Groups {
 public:
  explicit Groups(const Tape& tape, const Order& order) : sites_(sites_of(tape)) {
    parent_.resize(2 * (sites_.empty() ? 0 : 1 + *std::max_element(sites_.begin(), sites_.end())));
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (std::uint32_t e = 0; e < tape.entries.size(); ++e)
      if (order.partner_of[e] != no_entry) parent_[root(node(tape, e))] = root(node(tape, order.partner_of[e]));
    std::map<std::uint32_t, std::size_t> index;
    for (std::uint32_t e = 0; e < tape.entries.size(); ++e) {
      if (!is_sync(tape.entries[e].event)) continue;
      const auto [group, fresh] = index.try_emplace(root(node(tape, e)), groups_.size());
      if (fresh) groups_.emplace_back();
      groups_[group->second].push_back(e);
    }
  }

  const std::vector<std::vector<std::uint32_t>>& all() const { return groups_; }  // entries, in order of issue

 private:
  // A line may hold a flag and a barrier.
  std::uint32_t node(const Tape& tape, std::uint32_t e) const {
    const Event event = tape.entries[e].event;
    return 2 * sites_[e] + (sets(event) || waits(event) ? 1 : 0);
  }
  std::uint32_t root(std::uint32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  std::vector<std::uint32_t> sites_, parent_;
  std::vector<std::vector<std::uint32_t>> groups_;
};

Report describe(const Tape& tape, const Order& order, const std::vector<std::uint32_t>& group) {
  const auto place = [&](std::uint32_t e) {
    const Entry& entry = tape.entries[e];
    return Place{entry.site, entry.core, entry.pipe, e, entry.stream};
  };
  Report report{ReportKind::redundant_sync, {}, place(group.front()), {}, {}, group.size()};
  report.second.entry = no_entry;
  std::set<std::string> set_lines, wait_lines, barrier_lines;
  for (const std::uint32_t e : group) {
    const Event event = tape.entries[e].event;
    (sets(event) ? set_lines : waits(event) ? wait_lines : barrier_lines).insert(line_of(tape.entries[e].site));
    if (report.second.entry == no_entry && waits(event)) {  // a sound tape has a set for it
      report.first = place(order.partner_of[e]);
      report.second = place(e);
    }
  }
  const auto list = [](const char* what, const std::set<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? what : ", ") + line;
    return text;
  };
  const char* barrier = tape.entries[group.front()].event == Event::barrier       ? "the barrier at "
                        : tape.entries[group.front()].event == Event::barrier_all ? "the barrier_all at "
                                                                                  : "the sync_all at ";
  report.message = barrier_lines.empty() ? list("the set at ", set_lines) + list(" with the wait at ", wait_lines)
                                         : list(barrier, barrier_lines);
  report.message += " can go: in this run every conflicting pair is ordered without it";
  return report;
}

}  // namespace

std::vector<Report> redundant_syncs(const Tape& tape, const Device& device) {
  std::vector<Report> reports;
  const Order order = order_of(tape, device);
  if (!order.unpaired_waits.empty() || !order.leftover_sets.empty() || !sound(tape, device, {})) return reports;
  const Groups groups(tape, order);
  for (const auto& group : groups.all()) {
    std::vector<bool> dropped(tape.entries.size());
    for (const std::uint32_t e : group) dropped[e] = true;
    if (sound(tape, device, dropped)) reports.push_back(describe(tape, order, group));
  }
  return reports;
}

}  // namespace inlay::npu
