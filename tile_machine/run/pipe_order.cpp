#include "tile_machine/run/pipe_order.hpp"

#include <algorithm>
#include <cstddef>

namespace inlay::npu {

PipeOrder::PipeOrder(const Device& device, Pipe pipe, bool strangers)
    : device_(device), queue_(queue_of(pipe)), strangers_(strangers), known_(device.queues.size()) {}

bool PipeOrder::needs_barrier(const std::vector<Footprint>& footprints) {
  if (strangers_) return true;
  const std::uint64_t complete = known_[queue_];
  open_.erase(open_.begin(),
              std::find_if(open_.begin(), open_.end(), [&](const Access& access) { return access.number > complete; }));
  for (const Footprint& mine : footprints)
    for (const Access& access : open_) {
      const Footprint& other = access.footprint;
      const bool apart = mine.memory != other.memory || (!mine.write && !other.write) || (mine.atomic && other.atomic);
      if (!apart && common_byte(runs_of(mine), runs_of(other))) return true;
    }
  return false;
}

PipeOrder::Messages& PipeOrder::messages(const Entry& entry) {
  const std::size_t ends = static_cast<std::size_t>(entry.from) * pipes + static_cast<std::size_t>(entry.to);
  if (channels_.size() <= ends) channels_.resize(ends + 1);
  auto& of_flags = channels_[ends];
  if (of_flags.size() <= entry.flag) of_flags.resize(entry.flag + std::size_t{1});
  return of_flags[entry.flag];
}

void PipeOrder::learn(std::size_t queue, std::uint64_t count) { known_[queue] = std::max(known_[queue], count); }

void PipeOrder::saw(const Entry& entry, const std::vector<Footprint>& footprints) {
  const std::size_t queue = queue_of(entry.pipe);
  switch (entry.event) {
    case Event::work:
      if (queue != queue_) return;
      ++issued_;
      for (const Footprint& footprint : footprints) open_.push_back({issued_, footprint});
      return;
    case Event::barrier:
      if (queue != queue_) return;
      strangers_ = false;
      return learn(queue_, issued_);
    case Event::barrier_all:
    case Event::sync_all:
      strangers_ = false;
      for (std::size_t each = 0; each < known_.size(); ++each) learn(each, issued_);
      return;
    case Event::set: {
      Messages& channel = messages(entry);
      const std::size_t from = queue_of(entry.from);
      if (channel.owed > 0)
        --channel.owed;
      else
        channel.sent.push_back(from == queue_ ? issued_ : known_[from]);
      return;
    }
    case Event::wait: {
      Messages& channel = messages(entry);
      if (channel.taken == channel.sent.size()) {
        ++channel.owed;
        return;
      }
      const std::uint64_t count = channel.sent[channel.taken++];
      if (channel.taken == channel.sent.size() || channel.taken == 1024) {
        channel.sent.erase(channel.sent.begin(), channel.sent.begin() + static_cast<std::ptrdiff_t>(channel.taken));
        channel.taken = 0;
      }
      learn(queue_of(entry.to), count);
      if (entry.to == Pipe::scalar)
        for (std::size_t each = 0; each < known_.size(); ++each) learn(each, count);
      return;
    }
    default: return;
  }
}

}  // namespace inlay::npu
