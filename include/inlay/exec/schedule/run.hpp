// Runs a recorded line on several devices: a step begins when all that it waits for is done and its device is idle.
//
//   DeviceTimeline timeline;
//   Status status = run_steps({.graph = graph, .edges = edges, .devices = devices, .placement = placement}, timeline);
//
// So it runs by a virtual clock, on the thread that calls: what it does depends on the times that devices tell, and on
// nothing else. With DeviceThreads it runs by the wall clock, and devices work at the same time. What it computes
// depends on neither.
#pragma once

#include <cstddef>
#include <span>

#include <inlay/core/status.hpp>
#include <inlay/exec/device/device.hpp>
#include <inlay/exec/device/device_threads.hpp>
#include <inlay/exec/schedule/policies.hpp>
#include <inlay/exec/time/timeline.hpp>

namespace inlay::exec {

// How a device's thread waits for steps of others: the system wakes it, or (HeteroLLM's fast synchronisation) it sleeps
// until shortly before such a step is expected to end and then polls.
enum class Waiting : unsigned char { woken, fast };

struct Run {
  const StepGraph& graph;
  const Edges& edges;
  std::span<Device* const> devices;
  std::span<const std::size_t> placement;  // which of them computes each step
  Policy policy = Policy::chunk_order;
  Waiting waiting = Waiting::woken;  // by the wall clock
};

// A device's failure is a Status that names it, the step and its operator; so is a step that takes longer than the
// device's watchdog. No step begins behind it, and those that are under way are waited for. Refused before anything is
// computed: a placement that is not one of these devices for each step, a step that its device does not compute. The
// timeline has the steps that were done.
Status run_steps(const Run& run, DeviceTimeline& timeline);

// By the wall clock, each device on its thread; what devices say of time is not looked at. The same refusals, and a
// device that is lost. A device whose step is not done in its watchdog's time is lost (DeviceThreads): the run ends,
// but that step is still under way, and what it touches must stay.
Status run_steps(const Run& run, DeviceThreads& threads, DeviceTimeline& timeline);

}  // namespace inlay::exec
