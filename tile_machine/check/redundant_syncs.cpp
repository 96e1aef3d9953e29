#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>

#include "tile_machine/check/checker.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu {
namespace {

bool is_sync(Event event) {
  return sets(event) || waits(event) || event == Event::barrier || event == Event::barrier_all ||
         event == Event::sync_all;
}

// Everything ordered, no flag too many, nothing hangs. Stops at the first fault.
bool sound(const EventLog& log, const Device& device, const std::vector<bool>& dropped) {
  const Order order = order_of(log, device, dropped);
  if (!order.blocked.empty() || !order.overruns.empty()) return false;
  Clocks clocks(log, device, order);
  History history(log, device, 1);
  while (clocks.next())
    if (!clocks.has_room() || !clocks.has_turn() || !history.visit(clocks).empty()) return false;
  return true;
}

// Sync entries by what can only go together: a barrier's line; the lines of sets and the lines of the waits
// that take their flags.
class Groups {
 public:
  explicit Groups(const EventLog& log, const Order& order) : sites_(sites_of(log)) {
    parent_.resize(2 * (sites_.empty() ? 0 : 1 + *std::max_element(sites_.begin(), sites_.end())));
    std::iota(parent_.begin(), parent_.end(), 0u);
    for (std::uint32_t e = 0; e < log.entries.size(); ++e)
      if (order.partner_of[e] != no_entry) parent_[root(node(log, e))] = root(node(log, order.partner_of[e]));
    std::map<std::uint32_t, std::size_t> index;
    for (std::uint32_t e = 0; e < log.entries.size(); ++e) {
      if (!is_sync(log.entries[e].event)) continue;
      const auto [group, fresh] = index.try_emplace(root(node(log, e)), groups_.size());
      if (fresh) groups_.emplace_back();
      groups_[group->second].push_back(e);
    }
  }

  const std::vector<std::vector<std::uint32_t>>& all() const { return groups_; }  // entries, in order of issue

 private:
  // A line may hold a flag and a barrier.
  std::uint32_t node(const EventLog& log, std::uint32_t e) const {
    const Event event = log.entries[e].event;
    return 2 * sites_[e] + (sets(event) || waits(event) ? 1 : 0);
  }
  std::uint32_t root(std::uint32_t node) {
    while (parent_[node] != node) node = parent_[node] = parent_[parent_[node]];
    return node;
  }

  std::vector<std::uint32_t> sites_, parent_;
  std::vector<std::vector<std::uint32_t>> groups_;
};

Report describe(const EventLog& log, const Order& order, const std::vector<std::uint32_t>& group) {
  const auto place = [&](std::uint32_t e) {
    const Entry& entry = log.entries[e];
    return Place{entry.site, entry.core, entry.pipe, e, entry.stream};
  };
  Report report{ReportKind::redundant_sync, {}, place(group.front()), {}, {}, group.size()};
  report.second.entry = no_entry;
  std::set<std::string> set_lines, wait_lines, barrier_lines;
  for (const std::uint32_t e : group) {
    const Event event = log.entries[e].event;
    (sets(event) ? set_lines : waits(event) ? wait_lines : barrier_lines).insert(line_of(log.entries[e].site));
    if (report.second.entry == no_entry && waits(event)) {  // a sound log has a set for it
      report.first = place(order.partner_of[e]);
      report.second = place(e);
    }
  }
  const auto list = [](const char* what, const std::set<std::string>& lines) {
    std::string text;
    for (const std::string& line : lines) text += (text.empty() ? what : ", ") + line;
    return text;
  };
  const char* barrier = log.entries[group.front()].event == Event::barrier       ? "the barrier at "
                        : log.entries[group.front()].event == Event::barrier_all ? "the barrier_all at "
                                                                                 : "the sync_all at ";
  report.message = barrier_lines.empty() ? list("the set at ", set_lines) + list(" with the wait at ", wait_lines)
                                         : list(barrier, barrier_lines);
  report.message += " can go: in this run every conflicting pair is ordered without it";
  return report;
}

}  // namespace

std::vector<Report> redundant_syncs(const EventLog& log, const Device& device) {
  std::vector<Report> reports;
  const Order order = order_of(log, device);
  if (!order.unpaired_waits.empty() || !order.leftover_sets.empty() || !sound(log, device, {})) return reports;
  const Groups groups(log, order);
  for (const auto& group : groups.all()) {
    std::vector<bool> dropped(log.entries.size());
    for (const std::uint32_t e : group) dropped[e] = true;
    if (sound(log, device, dropped)) reports.push_back(describe(log, order, group));
  }
  return reports;
}

}  // namespace inlay::npu
