// What is known to be complete of one queue of a core, as the program is issued: one component of the checker's
// vector clocks. A chain asks it before each verb whether a barrier is needed.
//
//   barrier of the queue              all of its entries, to what comes after it in the queue
//   set(a, b) .. wait(a, b)           what `a` knew at the set (all, if `a` is the queue), to what `b` is given after
//                                     the wait; to == scalar: to all queues
//   barrier_all, sync_all             all, to all
//
// It never knows more than the checker. It knows less of flags between cores and of a wait that is issued before its
// set: a barrier too many is then put, none is missing.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "tile_machine/events/event_log.hpp"
#include "tile_machine/events/overlap.hpp"

namespace inlay::npu {

class PipeOrder {
 public:
  // `strangers`: the queue holds entries from before, of which nothing is known.
  PipeOrder(const Device& device, Pipe pipe, bool strangers);

  bool is_of(Pipe pipe) const { return queue_of(pipe) == queue_; }
  // Does an entry of the queue with these footprints depend on one that it is not known to come after?
  bool needs_barrier(const std::vector<Footprint>& footprints);
  // An entry of the core, of whatever queue, is issued.
  void saw(const Entry& entry, const std::vector<Footprint>& footprints);

 private:
  struct Access {
    std::uint64_t number;
    Footprint footprint;
  };
  struct Messages {
    std::vector<std::uint64_t> sent;  // by sets,
    std::size_t taken = 0;            // of those sent, waits have taken so many
    std::uint64_t owed = 0;           // waits that were issued before their sets
  };
  Messages& messages(const Entry& entry);
  std::size_t queue_of(Pipe pipe) const { return device_.queue_of[static_cast<std::size_t>(pipe)]; }
  void learn(std::size_t queue, std::uint64_t count);

  const Device& device_;
  std::size_t queue_;
  bool strangers_;
  std::uint64_t issued_ = 0;                     // entries of the queue that do work
  std::vector<std::uint64_t> known_;             // by queue: how many of these are complete to what it is given next
  std::vector<Access> open_;                     // accesses of the others
  std::vector<std::vector<Messages>> channels_;  // by the two pipes, by flag
};

}  // namespace inlay::npu
