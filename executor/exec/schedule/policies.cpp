#include <inlay/exec/schedule/policies.hpp>

#include <algorithm>
#include <utility>

namespace inlay::exec {

Chooser::Chooser(Policy policy, const StepGraph& graph, const Edges& edges, std::span<const double> us)
    : policy_(policy), graph_(graph), edges_(edges), us_(us) {
  if (policy != Policy::upward_rank) return;
  ranks_.resize(us.size());
  for (std::size_t step = us.size(); step-- > 0;) {
    for (const index next : edges.after(static_cast<index>(step)))
      ranks_[step] = std::max(ranks_[step], ranks_[static_cast<std::size_t>(next)]);
    ranks_[step] += us[step];
  }
}

double Chooser::unlocked_us(index step, std::span<const std::size_t> waits) const {
  double sum = 0;
  for (const index next : edges_.after(step))
    if (const auto at = static_cast<std::size_t>(next); waits[at] == 1) sum += us_[at];
  return sum;
}

std::size_t Chooser::choose(std::span<const Ready> ready, DeviceKind kind, std::span<const std::size_t> waits) const {
  // The least is next.
  const auto key = [&](const Ready& each) -> std::pair<double, index> {
    const auto at = static_cast<std::size_t>(each.step);
    switch (policy_) {
      case Policy::chunk_order: return {static_cast<double>(graph_.steps()[at].chunk), each.step};
      case Policy::fifo: return {static_cast<double>(each.since), each.step};
      case Policy::longest_unlock:
        return {(kind == DeviceKind::npu ? 1 : -1) * unlocked_us(each.step, waits), each.step};
      case Policy::upward_rank: return {-ranks_[at], each.step};
    }
    return {};
  };
  return static_cast<std::size_t>(
      std::min_element(ready.begin(), ready.end(), [&](const Ready& a, const Ready& b) { return key(a) < key(b); }) -
      ready.begin());
}

}  // namespace inlay::exec
