#include <inlay/exec/comm/loop_comm.hpp>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <string>
#include <vector>

namespace inlay::exec {

namespace {

using Clock = std::chrono::steady_clock;
using Count = std::atomic<std::uint64_t>;

// Ranks come within some microseconds of one another where each has a processor of its own. Where they share one, who
// spins keeps the others from coming.
constexpr auto spin = std::chrono::microseconds(50);

}  // namespace

// Exchanges are counted from 1. What a rank says in exchange i lies in said[i % 2] until all have heard it.
struct LoopComm::Rank {
  Shared* shared = nullptr;
  int rank = 0;
  std::uint64_t exchange = 0;  // under way
  std::vector<std::byte> said[2];
  Count spoken = 0;  // the last exchange that `said` has
  Count heard = 0;   // the last of which this rank has all that it wants

  Status say(const void* bytes, std::size_t count, double seconds);
  Status hear(const Rank& from, void* bytes, std::size_t count, double seconds);
  void end();

  static Status all_gather(void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                           double seconds);
  static Status broadcast(void* context, void* bytes, std::size_t count, double seconds);
  static void abort(void* context, std::string_view why);
};

struct LoopComm::Shared {
  Shared(int size, double seconds) : ranks(static_cast<std::size_t>(size)), deadline(seconds) {
    for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].shared = this, ranks[i].rank = static_cast<int>(i);
  }

  void tell(Count& count, std::uint64_t value) {
    count.store(value);
    if (sleeping.load() == 0) return;
    { const std::lock_guard lock(mutex); }  // who has looked at the count before sleeps by now
    changed.notify_all();
  }

  // Until that count of rank `other` has come so far.
  Status wait(const Count& count, std::uint64_t value, int other, double seconds) {
    const auto come = [&] { return count.load() >= value || aborted.load(); };
    const auto begin = Clock::now();
    while (!come() && Clock::now() - begin < spin) {
    }
    if (!come()) {
      std::unique_lock lock(mutex);
      ++sleeping;
      if (seconds == Comm::forever)
        changed.wait(lock, come);
      else
        changed.wait_until(
            lock, begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds)), come);
      --sleeping;
    }
    if (count.load() >= value) return {};
    const std::lock_guard lock(mutex);
    if (aborted.load()) return {StatusCode::internal, why};
    return {StatusCode::internal, "rank " + std::to_string(other) + " has not come within " +
                                      std::to_string(static_cast<long>(seconds * 1e3)) + " ms"};
  }

  std::vector<Rank> ranks;
  double deadline;
  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<int> sleeping = 0;
  std::atomic<bool> aborted = false;
  std::string why;  // the first one
};

// The memory was exchange - 2's, which everyone must have heard: who only speaks may be ahead of the others.
Status LoopComm::Rank::say(const void* bytes, std::size_t count, double seconds) {
  if (exchange > 2)
    for (const Rank& other : shared->ranks)
      if (Status status = shared->wait(other.heard, exchange - 2, other.rank, seconds); !status.ok()) return status;
  const auto* from = static_cast<const std::byte*>(bytes);
  said[exchange % 2].assign(from, from + count);
  shared->tell(spoken, exchange);
  return {};
}

Status LoopComm::Rank::hear(const Rank& from, void* bytes, std::size_t count, double seconds) {
  if (Status status = shared->wait(from.spoken, exchange, from.rank, seconds); !status.ok()) return status;
  const std::vector<std::byte>& words = from.said[exchange % 2];
  if (words.size() != count)
    return {StatusCode::internal, "rank " + std::to_string(from.rank) + " says " + std::to_string(words.size()) +
                                      " bytes; it must be " + std::to_string(count)};
  if (count != 0) std::memcpy(bytes, words.data(), count);
  return {};
}

void LoopComm::Rank::end() { shared->tell(heard, exchange); }

Status LoopComm::Rank::all_gather(void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                                  double seconds) {
  Rank& self = *static_cast<Rank*>(context);
  ++self.exchange;
  const std::size_t count = bytes[static_cast<std::size_t>(self.rank)];
  if (Status status = self.say(own, count, seconds); !status.ok()) return status;
  auto* to = static_cast<std::byte*>(all);
  for (const Rank& other : self.shared->ranks) {
    const std::size_t theirs = bytes[static_cast<std::size_t>(other.rank)];
    if (&other != &self) {
      if (Status status = self.hear(other, to, theirs, seconds); !status.ok()) return status;
    } else if (to != own && count != 0) {
      std::memcpy(to, own, count);
    }
    to += theirs;
  }
  self.end();
  return {};
}

Status LoopComm::Rank::broadcast(void* context, void* bytes, std::size_t count, double seconds) {
  Rank& self = *static_cast<Rank*>(context);
  ++self.exchange;
  Status status =
      self.rank == 0 ? self.say(bytes, count, seconds) : self.hear(self.shared->ranks.front(), bytes, count, seconds);
  if (status.ok()) self.end();
  return status;
}

void LoopComm::Rank::abort(void* context, std::string_view why) {
  Shared& shared = *static_cast<Rank*>(context)->shared;
  {
    const std::lock_guard lock(shared.mutex);
    if (shared.aborted.load()) return;
    shared.why = why;
    shared.aborted.store(true);
  }
  shared.changed.notify_all();
}

LoopComm::LoopComm(int size, double deadline) : shared_(std::make_unique<Shared>(size, deadline)) {}
LoopComm::~LoopComm() = default;

Comm LoopComm::comm(int rank) {
  return {.context = &shared_->ranks[static_cast<std::size_t>(rank)],
          .rank = rank,
          .size = static_cast<int>(shared_->ranks.size()),
          .all_gather = Rank::all_gather,
          .broadcast = Rank::broadcast,
          .abort = Rank::abort,
          .deadline = shared_->deadline};
}

}  // namespace inlay::exec
