#include "tile_machine/time/wake_queue.hpp"

#include <algorithm>
#include <bit>

namespace inlay::npu {

WakeQueue::WakeQueue() { first_.fill(nothing); }

void WakeQueue::push(Tick at, std::uint64_t agent) {
  next_ = std::min(next_, at);
  if (bucket_of(at) >= near_ + buckets)
    far_.emplace(at, agent);
  else
    put(at, agent);
}

void WakeQueue::put(Tick at, std::uint64_t agent) {
  if (free_ == nothing) {
    free_ = static_cast<std::uint32_t>(all_.size());
    all_.push_back({at, agent, nothing});
  }
  const std::uint32_t place = free_;
  free_ = all_[place].following;
  const std::uint64_t bucket = bucket_of(at) % buckets;
  all_[place] = {at, agent, first_[bucket]};
  first_[bucket] = place;
  filled_[bucket / 64] |= std::uint64_t{1} << bucket % 64;
  ++count_;
}

void WakeQueue::take(std::vector<std::uint64_t>& agents) {
  agents.clear();
  const Tick now = next_;
  if (now == never) return;
  near_ = bucket_of(now);
  for (; !far_.empty() && bucket_of(far_.top().first) < near_ + buckets; far_.pop())
    put(far_.top().first, far_.top().second);
  const std::uint64_t bucket = near_ % buckets;
  for (std::uint32_t* link = &first_[bucket]; *link != nothing;) {
    const std::uint32_t place = *link;
    if (all_[place].at != now) {
      link = &all_[place].following;
      continue;
    }
    agents.push_back(all_[place].agent);
    *link = all_[place].following;
    all_[place].following = free_;
    free_ = place;
  }
  if (first_[bucket] == nothing) filled_[bucket / 64] &= ~(std::uint64_t{1} << bucket % 64);
  count_ -= agents.size();
  if (agents.size() > 1) std::sort(agents.begin(), agents.end());
  find_next();
}

// From the bucket that was taken last, once around.
std::uint64_t WakeQueue::first_bucket() const {
  const std::uint64_t begin = near_ % buckets;
  std::uint64_t word = begin / 64, bits = filled_[word] & ~std::uint64_t{0} << begin % 64;
  while (bits == 0) {
    word = (word + 1) % words;
    bits = filled_[word];
  }
  return word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
}

void WakeQueue::find_next() {
  next_ = far_.empty() ? never : far_.top().first;
  if (count_ == 0) return;
  for (std::uint32_t place = first_[first_bucket()]; place != nothing; place = all_[place].following)
    next_ = std::min(next_, all_[place].at);
}

}  // namespace inlay::npu
