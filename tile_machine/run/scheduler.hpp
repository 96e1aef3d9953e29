// Checked mode's execution: in-order queues of each stream, flags between them, and a choice of which entry
// runs next. Every order that the synchronisation permits may be chosen; a right program gives the same
// result in all of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "tile_machine/events/channels.hpp"
#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/report.hpp"
#include "tile_machine/run/memory.hpp"
#include "tile_machine/run/streams.hpp"

namespace inlay::npu {

enum class Policy : std::uint8_t {
  issue_order,  // at once, where nothing holds it back
  late_dma,     // DMA as late as the synchronisation permits: a consumer that does not wait reads poison
  early_dma,    // DMA first: a producer that does not wait overwrites what is still being read
  random        // among all entries that may run
};

// An entry of a queue, and what it does when its turn comes.
struct Instruction {
  Entry entry;
  std::vector<Footprint> footprints;
  std::function<void()> run;
  std::uint32_t index = no_entry;  // in the log
  std::uint64_t order = 0;         // of issue
};

// Sets that no wait has taken, by channel.
class StandingSets {
 public:
  std::uint64_t& of(const ChannelId& channel) {
    if (counts_.size() <= channel.ends) counts_.resize(channel.ends + std::size_t{1});
    auto& of_flags = counts_[channel.ends];
    if (of_flags.size() <= channel.flag) of_flags.resize(channel.flag + std::size_t{1});
    return of_flags[channel.flag];
  }

 private:
  std::vector<std::vector<std::uint64_t>> counts_;  // tables that grow with the ids in use
};

class Scheduler {
 public:
  // `kinds`: of the streams of each core, as in EventLog::streams.
  Scheduler(const Device& device, std::uint32_t cores, std::vector<std::uint8_t> kinds, Policy policy,
            std::uint64_t seed, Memories& memories, Reports& reports, Streams& streams);

  void put(Instruction instruction);  // into its queue; the stream stops while that is full
  // In a run that carries nothing out, what nothing holds back has no need to stand in a queue.
  void pass(const Entry& entry, std::uint32_t index);
  void scalar(Instruction& instruction);  // a work entry of the stream itself: runs now
  void stream_set(const Entry& entry);    // set(scalar, ..)
  void stream_wait(const Entry& entry);   // wait(.., scalar)
  void drain(const Entry& entry);         // barrier_all
  void meet(const Entry& entry);          // sync_all
  void give_up(bool report);              // nothing can go on: who waits for what, then empty queues
  void report_unwritten_outputs();

 private:
  struct StreamState {
    std::vector<std::deque<Instruction>> queues;
    std::optional<Entry> stopped;  // what it waits for
    std::uint64_t meetings = 0;
    std::size_t standing = 0;  // instructions in its queues
  };
  std::uint8_t queue_of(Pipe pipe) const { return device_.queue_of[static_cast<int>(pipe)]; }
  std::uint32_t number(const Entry& entry) const {
    return entry.core * static_cast<std::uint32_t>(kinds_.size()) + entry.stream;
  }
  ChannelId channel(const Entry& entry) const { return channel_of(entry, kinds_.size()); }
  bool empty(std::uint32_t stream) const;
  bool enabled(const Entry& entry);
  bool step(std::uint32_t stream);
  void count_flags(const Entry& entry);
  void execute(const Instruction& instruction);
  void stop(const Entry& entry, const std::function<bool()>& ready);
  void report_deadlock();
  void report_unwritten(const Entry& entry, const Footprint& footprint, std::uint64_t byte, std::uint32_t index);
  std::string waits_for(const Entry& entry) const;

  const Device& device_;
  std::vector<std::uint8_t> kinds_;
  Policy policy_;
  std::mt19937_64 random_;
  Memories& memories_;
  Reports& reports_;
  Streams& streams_;
  std::vector<StreamState> states_;  // by stream, core by core
  StandingSets standing_;
  std::uint64_t order_ = 0, met_ = 0;
};

}  // namespace inlay::npu
