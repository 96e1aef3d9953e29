// By the wall clock. There is one lock, under which a device's thread says that its step is done and takes the next
// one, so that a device that goes on needs no other thread to tell it so. The thread that calls waits for the end, and
// looks at the watchdogs.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <inlay/exec/schedule/run.hpp>

#include "executor/exec/schedule/step_queues.hpp"

namespace inlay::exec {
namespace {

using Clock = std::chrono::steady_clock;

class WallRun : public std::enable_shared_from_this<WallRun> {
 public:
  WallRun(const Run& run, DeviceThreads& threads, DeviceTimeline& timeline)
      : run_(run),
        threads_(threads),
        queues_(run, timeline),
        used_(run.devices.size()),
        lost_(run.devices.size()),
        changed_(run.devices.size()) {}

  Status operator()() {
    if (!std::ranges::equal(run_.devices, threads_.devices()))
      return invalid("devices has others than the threads; it must have the same, in their order");
    for (const std::size_t device : run_.placement)
      if (device < used_.size()) used_[device] = true;
    for (std::size_t device = 0; device < used_.size(); ++device)
      if (Status status = used_[device] ? threads_.check(device) : Status(); !status.ok()) return status;
    if (Status status = queues_.prepare(); !status.ok()) return status;
    std::unique_lock lock(mutex_);  // no step begins before all of them are there
    // The run is kept by whoever is in it, since a lost device comes back when it is over.
    for (std::size_t device = 0; device < used_.size(); ++device)
      if (used_[device]) threads_.start(device, [self = shared_from_this(), device] { self->work(device); });
    while (!queues_.is_over()) {
      const double due = next_due();
      if (std::isfinite(due))
        over_.wait_until(lock, begin_ + std::chrono::duration_cast<Clock::duration>(Micro(due)));
      else
        over_.wait(lock);
      give_up();
    }
    end(lock);
    return queues_.take_status();
  }

 private:
  using Micro = std::chrono::duration<double, std::micro>;

  // A sleep takes so much longer than it was asked for; and nobody looks for longer than a wake-up could cost.
  static constexpr double sleep_grain_us = 100, most_polled_us = 200;

  double now() const { return Micro(Clock::now() - begin_).count(); }

  // On the device's thread.
  void work(std::size_t device) {
    std::unique_lock lock(mutex_);
    ++within_;
    while (!ended_ && !lost_[device]) {
      const double begin = now();
      const auto next = queues_.begin(device, begin);
      if (!next) {
        if (run_.waiting == Waiting::fast) poll(device, lock);
        changed_[device].wait(lock, [&] { return ended_ || queues_.waits(device); });
        continue;
      }
      Device& at = *run_.devices[device];
      const GraphStep& step = run_.graph.steps()[static_cast<std::size_t>(*next)];
      if (std::isfinite(at.limits().watchdog_us)) over_.notify_one();
      lock.unlock();
      const Event event = at.submit(step, begin);
      lock.lock();
      if (lost_[device]) return;
      queues_.end(device, now(), event.status);
      ends_.fetch_add(1, std::memory_order_release);
      for (std::size_t other = 0; other < used_.size(); ++other)
        if (other != device && queues_.waits(other)) changed_[other].notify_one();
      if (queues_.is_over()) over_.notify_one();
    }
    --within_;
    left_.notify_all();
  }

  // Sleeps until shortly before the step is expected to end that the device may wait for, then looks again and again.
  void poll(std::size_t device, std::unique_lock<std::mutex>& lock) {
    while (!ended_ && !queues_.waits(device)) {
      const double begin = now(), expected = queues_.expected_us(begin);
      if (!std::isfinite(expected)) return;
      const std::uint64_t seen = ends_.load(std::memory_order_relaxed);
      lock.unlock();
      if (expected - begin > sleep_grain_us) std::this_thread::sleep_for(Micro(expected - begin - sleep_grain_us));
      const double until = std::max(expected, now()) + most_polled_us;
      bool changed = false;
      while (!changed && now() < until) changed = ends_.load(std::memory_order_acquire) != seen;
      // Whoever ended the step has the lock for a moment more: to sleep for it would cost what polling saves.
      while (changed && !lock.owns_lock() && now() < until) (void)lock.try_lock();
      if (!lock.owns_lock()) lock.lock();
      if (!changed) return;
    }
  }

  double due(std::size_t device) const {
    const auto& at = queues_.under_way(device);
    return at ? at->begin_us + run_.devices[device]->limits().watchdog_us : INFINITY;
  }
  double next_due() const {
    double first = INFINITY;
    for (std::size_t device = 0; device < used_.size(); ++device) first = std::min(first, due(device));
    return first;
  }
  // Steps whose watchdog is due: their devices are lost.
  void give_up() {
    for (std::size_t device = 0; device < used_.size(); ++device) {
      if (now() < due(device)) continue;
      lost_[device] = true;
      --within_;
      threads_.lose(device);
      queues_.end(device, now(), overdue(run_.devices[device]->limits().watchdog_us));
    }
  }
  // What was given to the run may go from now on: no thread but a lost device's looks at it.
  void end(std::unique_lock<std::mutex>& lock) {
    ended_ = true;
    for (std::condition_variable& each : changed_) each.notify_all();
    left_.wait(lock, [&] { return within_ == 0; });
  }

  const Run& run_;
  DeviceThreads& threads_;
  StepQueues queues_;
  const Clock::time_point begin_ = Clock::now();
  std::vector<bool> used_, lost_;
  std::mutex mutex_;
  std::vector<std::condition_variable> changed_;  // a device's: a step is ready for it
  std::condition_variable over_, left_;
  std::atomic<std::uint64_t> ends_ = 0;  // of steps
  index within_ = 0;                     // threads, but for those of lost devices
  bool ended_ = false;
};

}  // namespace

Status run_steps(const Run& run, DeviceThreads& threads, DeviceTimeline& timeline) {
  timeline = {};
  return (*std::make_shared<WallRun>(run, threads, timeline))();
}

}  // namespace inlay::exec
