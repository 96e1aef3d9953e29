#include "npu_kernels/machine/run/machine.hpp"

#include <algorithm>

#include <inlay/cpu.hpp>

namespace inlay::npu {

namespace {

std::uint32_t core_count(const Device& device, std::uint32_t wanted) {
  return wanted == 0 ? std::max(1u, device.cores) : std::min(wanted, std::max(1u, device.cores));
}

void report_end(Run& run, Streams::End end) {
  if (end == Streams::End::finished || end == Streams::End::deadlock) return;
  Report report;
  report.kind = ReportKind::capacity;
  report.message =
      end == Streams::End::threw ? "the program threw an exception" : "no memory for the stacks of the cores";
  run.reports.add(std::move(report));
  run.failed = true;
}

}  // namespace

GlobalMemory::GlobalMemory(const Device& device, std::uint32_t cores, bool checked, bool data)
    : device_(device), cores_(core_count(device, cores)), memories_(device, cores_, checked && data, data) {}

Tensor GlobalMemory::add(std::string name, std::byte* data, std::uint64_t bytes, DType dtype, Shape shape, Use use,
                         Site site) {
  Tensor result;
  result.dtype = dtype;
  result.shape = shape;
  result.pitch = shape.columns;
  if (shape.rows < 0 || shape.columns < 0 || storage_bytes(result) > bytes) {
    result.error = "a tensor of global memory is larger than its data";
    return result;
  }
  result.buffer = memories_.add_global(std::move(name), data, bytes, use, site);
  result.begin = memories_.buffer(result.buffer).begin;
  return result;
}

Tensor GlobalMemory::absent(std::string name, DType dtype, Shape shape, Use use, Site site) {
  Tensor form;
  form.dtype = dtype;
  form.shape = shape;
  form.pitch = shape.columns;
  return add(std::move(name), nullptr, shape.rows < 0 || shape.columns < 0 ? 0 : storage_bytes(form), dtype, shape, use,
             site);
}

Tensor GlobalMemory::workspace(std::string name, Shape shape, DType dtype, Site site) {
  Tensor result;
  result.dtype = dtype;
  result.shape = shape;
  result.pitch = shape.columns;
  if (shape.rows < 0 || shape.columns < 0) {
    result.error = "a workspace of negative extent";
    return result;
  }
  result.buffer = memories_.add_workspace(std::move(name), storage_bytes(result), site);
  result.begin = memories_.buffer(result.buffer).begin;
  return result;
}

Machine::Machine(const Device& device, Options options)
    : GlobalMemory(device, options.cores, true, options.data), options_(std::move(options)) {}

Outcome Machine::run(const std::function<void(Core&)>& program) {
  memories_.restart();
  Outcome outcome;
  outcome.tape.cores = static_cast<std::uint16_t>(cores_);
  Mutations mutations(options_.mutation);
  Run run{.device = device_, .cores = cores_, .memories = memories_};
  Scheduler scheduler(device_, cores_, options_.policy, options_.seed, memories_, run.reports, run.streams);
  run.scheduler = &scheduler;
  run.tape = options_.record ? &outcome.tape : nullptr;
  run.compute = options_.compute && options_.data;
  run.mutations = &mutations;
  run.streams.stuck = [&] { scheduler.give_up(!run.failed); };
  const Streams::End end = run.streams.run(cores_, [&](std::uint32_t index) {
    Core core(run, index);
    program(core);
  });
  report_end(run, end);
  if (end == Streams::End::finished && !run.failed) scheduler.report_unwritten_outputs();
  outcome.tape.buffers = memories_.buffers();
  outcome.reports = run.reports.take();
  outcome.points = mutations.points();
  return outcome;
}

FunctionalMachine::FunctionalMachine(const Device& device, std::uint32_t cores) : GlobalMemory(device, cores, false) {}

std::vector<Report> FunctionalMachine::run(const std::function<void(Core&)>& program) {
  memories_.restart();
  Run run{.device = device_, .cores = cores_, .memories = memories_};
  run.meetings.assign(cores_, 0);
  run.isa = Cpu(serial()).isa();
  run.streams.stuck = [&] {
    if (run.failed) return;
    Report report;
    report.kind = ReportKind::deadlock;
    report.message = "a core waits for another one that never comes; a checked run names the lines";
    run.reports.add(std::move(report));
  };
  const Streams::End end = run.streams.run(cores_, [&](std::uint32_t index) {
    Core core(run, index);
    program(core);
  });
  report_end(run, end);
  return run.reports.take();
}

}  // namespace inlay::npu
