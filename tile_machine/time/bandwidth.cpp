#include "tile_machine/time/bandwidth.hpp"

#include <algorithm>
#include <numeric>

namespace inlay::npu {

namespace {

// Queues of a core, in all its streams, that a transfer of global memory can stand in.
Rate dram_queues(const Device& device, const std::vector<std::uint8_t>& streams) {
  Rate all = 0;
  for (const std::uint8_t stream : streams) {
    std::vector<bool> seen(device.queues.size());
    for (const Path& path : device.paths)
      if (path.dram && device.stream_of(path.pipe) == stream) seen[device.queue_of[static_cast<int>(path.pipe)]] = true;
    all += std::count(seen.begin(), seen.end(), true);
  }
  return std::max<Rate>(all, 1);
}

}  // namespace

void fill_max_min(std::span<const Rate> demand, Rate capacity, std::span<Rate> grant) {
  if (std::accumulate(demand.begin(), demand.end(), Rate{0}) <= capacity) {
    std::copy(demand.begin(), demand.end(), grant.begin());
    return;
  }
  constexpr Rate open = -1;
  std::fill(grant.begin(), grant.end(), open);
  Rate count = static_cast<Rate>(demand.size());
  for (bool grew = true; grew;) {  // the level only rises: who is served at one level is served at the last
    grew = false;
    const Rate level = capacity / count;
    for (std::size_t i = 0; i < demand.size(); ++i) {
      if (grant[i] != open || demand[i] > level) continue;
      grant[i] = demand[i];
      capacity -= demand[i];
      --count;  // never the last one: the demands exceed the capacity
      grew = true;
    }
  }
  std::replace(grant.begin(), grant.end(), open, capacity / count);
}

BandwidthShare::BandwidthShare(const Device& device, const std::vector<std::uint8_t>& streams, const Limits& limits,
                               std::uint32_t cores, Sharing sharing)
    : core_of_(cores * device.queues.size() * streams.size()),
      sharing_(sharing),
      total_(to_rate(limits.bytes_per_cycle)),
      core_cap_(to_rate(limits.bytes_per_cycle_core)),
      transfers_(core_of_.size()),
      shared_(transfers_.size()) {
  const std::size_t of_a_core = device.queues.size() * streams.size();
  for (std::size_t lane = 0; lane < core_of_.size(); ++lane)
    core_of_[lane] = static_cast<std::uint16_t>(lane / of_a_core);
  const Rate sharers = dram_queues(device, streams);
  part_ = std::min(core_cap_ / sharers, total_ / (sharers * cores));
}

void BandwidthShare::start(std::uint32_t lane, std::uint64_t bytes, Rate solo, Tick now) {
  transfers_[lane] = {.left = to_amount(bytes), .solo = solo, .rate = 0, .since = now, .end = never};
  active_.insert(std::upper_bound(active_.begin(), active_.end(), lane), lane);
  began_.push_back(lane);
  changed_ = true;
}

void BandwidthShare::settle(Transfer& transfer, Tick now) {
  const Amount part = std::min(transfer.left, transfer.rate * (now - transfer.since));
  transfer.left -= part;
  transfer.since = now;
  moved_rest_ += part;
  moved_bytes_ += static_cast<std::uint64_t>(moved_rest_ >> amount_shift);
  moved_rest_ &= (Amount{1} << amount_shift) - 1;
}

void BandwidthShare::grant(Transfer& transfer, Rate rate, Tick now) {
  if (rate == transfer.rate) return;
  settle(transfer, now);
  transfer.rate = rate;
  transfer.end = rate > 0 ? now + duration(transfer.left, rate) : never;
}

void BandwidthShare::end(Tick now, std::vector<std::uint32_t>& lanes) {
  if (next_end_ != now) return;
  const auto ends = [&](std::uint32_t lane) { return transfers_[lane].end == now; };
  for (std::uint32_t lane : active_) {
    if (!ends(lane)) continue;
    settle(transfers_[lane], now);
    lanes.push_back(lane);
    ended_.push_back(lane);
  }
  active_.erase(std::remove_if(active_.begin(), active_.end(), ends), active_.end());
  changed_ = true;
}

void BandwidthShare::share_max_min(Tick now) {
  demand_.clear();
  solo_.clear();
  for (std::size_t i = 0; i < active_.size();) {
    const std::uint16_t core = core_of_[active_[i]];
    Rate sum = 0;
    for (; i < active_.size() && core_of_[active_[i]] == core; ++i) {
      solo_.push_back(transfers_[active_[i]].solo);
      sum += solo_.back();
    }
    demand_.push_back(std::min(sum, core_cap_));
  }
  granted_.resize(demand_.size());
  share_.resize(solo_.size());
  fill_max_min(demand_, total_, granted_);
  std::size_t group = 0;
  for (std::size_t i = 0; i < active_.size(); ++group) {
    const std::size_t begin = i;
    const std::uint16_t core = core_of_[active_[i]];
    while (i < active_.size() && core_of_[active_[i]] == core) ++i;
    if (i - begin == 1)
      share_[begin] = std::min(solo_[begin], granted_[group]);
    else
      fill_max_min(std::span(solo_).subspan(begin, i - begin), granted_[group],
                   std::span(share_).subspan(begin, i - begin));
  }
  for (std::size_t i = 0; i < active_.size(); ++i) grant(transfers_[active_[i]], share_[i], now);
}

// Where each transfer that ended is followed by one of its lane that asks for as much, who gets what is as it was: the
// new ones get what the old ones had.
bool BandwidthShare::took_over(Tick now) {
  if (began_.size() != ended_.size()) return false;
  for (const std::uint32_t lane : began_)
    if (shared_[lane].solo != transfers_[lane].solo) return false;
  for (const std::uint32_t lane : began_) grant(transfers_[lane], shared_[lane].rate, now);
  return true;
}

void BandwidthShare::remember() {
  for (const std::uint32_t lane : ended_) shared_[lane] = {};
  for (const std::uint32_t lane : active_) shared_[lane] = {transfers_[lane].solo, transfers_[lane].rate};
}

void BandwidthShare::share_anew(Tick now) {
  if (sharing_ == Sharing::max_min) return share_max_min(now);
  for (std::uint32_t lane : active_) {
    const Rate solo = transfers_[lane].solo;
    grant(transfers_[lane], sharing_ == Sharing::none ? solo : std::min(solo, part_), now);
  }
}

void BandwidthShare::share(Tick now) {
  if (!changed_) return;
  changed_ = false;
  if (!took_over(now)) {
    share_anew(now);
    remember();
  }
  began_.clear();
  ended_.clear();
  next_end_ = never;
  Rate sum = 0;
  for (std::uint32_t lane : active_) {
    next_end_ = std::min(next_end_, transfers_[lane].end);
    sum += transfers_[lane].rate;
  }
  if (!samples_.empty() && samples_.back().at == now)
    samples_.back().rate = sum;
  else if (samples_.empty() || samples_.back().rate != sum)
    samples_.push_back({.at = now, .rate = sum});
}

}  // namespace inlay::npu
