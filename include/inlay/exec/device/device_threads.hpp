// A thread for each of several devices, so that they work at the same time.
//
//   DeviceThreads threads(devices);
//   Status status = run_steps({.graph = graph, .edges = edges, .devices = devices, .placement = placement}, threads,
//                             timeline);
//
// They are made once and wait between runs. A device that a run gave up, since its watchdog was due, is lost until the
// step that it is at has ended: no thread can be stopped. What that step touches must stay until then.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/exec/device/device.hpp>

namespace inlay::exec {

class DeviceThreads {
 public:
  // The devices outlive it.
  explicit DeviceThreads(std::span<Device* const> devices);
  // Waits for all that is under way, be the device lost.
  ~DeviceThreads();
  DeviceThreads(const DeviceThreads&) = delete;
  DeviceThreads& operator=(const DeviceThreads&) = delete;

  std::span<Device* const> devices() const { return devices_; }
  // Is it lost, or has the system refused it a thread?
  Status check(std::size_t device) const;

  // For run_steps. The job begins on the device's thread, which ends the one before.
  void start(std::size_t device, std::function<void()> job);
  // The job that its thread is at is no longer waited for.
  void lose(std::size_t device);

 private:
  class Thread;

  std::vector<Device*> devices_;
  std::vector<std::unique_ptr<Thread>> threads_;
};

}  // namespace inlay::exec
