#include "tile_machine/run/machine.hpp"

#include <algorithm>

#include "tile_machine/run/checked_core.hpp"
#include "tile_machine/run/functional_core.hpp"
#include "tile_machine/run/memory.hpp"
#include "tile_machine/run/run_checked.hpp"

namespace inlay::npu {

namespace {

// As in EventLog::streams.
std::vector<std::uint8_t> streams_of_a_core(const Device& device, Launch launch) {
  if (device.streams.empty()) return {0};
  std::vector<std::uint8_t> kinds;
  for (std::size_t kind = 0; kind < device.streams.size(); ++kind) {
    const bool limited = launch.vectors > 0 && kind == device.stream_of(Pipe::vector);
    const std::uint32_t count = device.streams[kind].count;
    kinds.insert(kinds.end(), limited ? std::min(count, launch.vectors) : count, static_cast<std::uint8_t>(kind));
  }
  return kinds;
}

// The log is given up, so that there is memory to say why.
std::string why_full(CheckedRun& run) {
  std::size_t bytes = 0;
  if (run.log != nullptr) {
    bytes = run.log->entries.size() * sizeof(Entry) + run.log->footprints.size() * sizeof(Footprint);
    run.log->entries = {};
    run.log->footprints = {};
  }
  const std::string most = std::to_string(run.max_entries), taken = " (" + std::to_string(bytes >> 20) + " MiB)";
  if (run.entries >= run.max_entries)
    return "its log has more than " + most + " entries" + taken + ", the most there may be";
  return "no memory is left behind entry " + std::to_string(run.entries) + " of its log" + taken + ", which may have " +
         most;
}

void report_end(Run& run, Streams::End end, const std::string& full = {}) {
  if (full.empty() && (end == Streams::End::finished || end == Streams::End::deadlock)) return;
  Report report;
  report.kind = ReportKind::capacity;
  report.message = !full.empty()                ? full
                   : end == Streams::End::threw ? "the program threw an exception"
                                                : "no memory for the stacks of the cores";
  run.reports.add(std::move(report));
  run.failed = true;
}

}  // namespace

PlanningMemory::PlanningMemory(const Device& device, std::uint32_t cores) : GlobalMemory(device, cores, false, false) {}

Machine::Machine(const Device& device, Options options)
    : GlobalMemory(device, options.cores, options.compute && options.data, options.data),
      options_(std::move(options)) {}

Outcome run_checked(const Device& device, Memories& memories, std::uint32_t cores, Launch launch,
                    const Options& options, const RunStream& run_stream) {
  memories.restart();
  Outcome outcome;
  const std::vector<std::uint8_t> kinds = streams_of_a_core(device, launch);
  outcome.log.streams = kinds;
  outcome.log.cores = static_cast<std::uint16_t>(cores);
  Mutations mutations(options.mutation);
  Streams streams;
  CheckedRun run{{.device = device, .cores = cores, .kinds = kinds, .memories = memories, .streams = streams}};
  Scheduler scheduler(device, cores, kinds, options.policy, options.seed, memories, run.reports, run.streams);
  run.scheduler = &scheduler;
  run.log = options.record ? &outcome.log : nullptr;
  run.compute = options.compute && options.data;
  run.local_footprints = options.local_footprints;
  run.max_entries = options.entries;
  if (options.data || options.mutation) run.mutations = &mutations;  // an estimate asks for no points
  run.streams.stuck = [&] { scheduler.give_up(!run.failed); };
  const Streams::End end =
      run.streams.run(cores * static_cast<std::uint32_t>(run.kinds.size()), [&](std::uint32_t stream) {
        try {
          run_stream(run, stream);
        } catch (const LogIsFull&) {  // report_end says so
        }
      });
  report_end(run, end, run.full ? why_full(run) : std::string());
  if (end == Streams::End::finished && !run.failed) scheduler.report_unwritten_outputs();
  outcome.log.buffers = memories.buffers();
  outcome.reports = run.reports.take();
  outcome.points = mutations.points();
  return outcome;
}

Outcome Machine::run(const std::function<void(Core&)>& program, Launch launch) {
  return run_checked(device_, memories_, cores_of(launch), launch, options_,
                     [&](CheckedRun& run, std::uint32_t stream) {
                       CheckedCore core(run, stream);
                       program(core);
                     });
}

FunctionalMachine::FunctionalMachine(const Device& device, std::uint32_t cores, tiles::HostProduct product, bool data)
    : GlobalMemory(device, cores, false, data), data_(data), product_(product) {}

std::vector<Report> FunctionalMachine::run(const std::function<void(Core&)>& program, Launch launch,
                                           ReplayLog* replay) {
  memories_.restart(replay != nullptr && replay->started());
  const std::uint32_t cores = cores_of(launch);
  FunctionalRun run{{.device = device_,
                     .cores = cores,
                     .kinds = streams_of_a_core(device_, launch),
                     .memories = memories_,
                     .streams = streams_}};
  run.rehearsal = !data_;
  run.verbs_left = std::uint64_t{1} << 25;  // as many as a log may have (Options::entries)
  run.meetings.assign(cores * run.kinds.size(), 0);
  run.product = product_;
  run.host = &host_;
  run.replay = replay;
  if (replay != nullptr) replay->resume();
  run.streams.stuck = [&] {
    if (run.failed || run.full) return;
    Report report;
    report.kind = ReportKind::deadlock;
    report.message = "a core waits for another one that never comes; a checked run names the lines";
    run.reports.add(std::move(report));
  };
  const Streams::End end =
      run.streams.run(cores * static_cast<std::uint32_t>(run.kinds.size()), [&](std::uint32_t stream) {
        FunctionalCore core(run, stream);
        try {
          program(core);
        } catch (const LogIsFull&) {  // a rehearsal has seen enough
        }
      });
  report_end(run, end);
  if (replay != nullptr && end == Streams::End::finished && !run.failed) replay->end();
  return run.reports.take();
}

}  // namespace inlay::npu
