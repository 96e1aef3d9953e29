#include "tile_machine/run/machine.hpp"

#include <algorithm>

#include <inlay/core/workspace.hpp>

namespace inlay::npu {

namespace {

std::uint32_t core_count(const Device& device, std::uint32_t wanted) {
  return wanted == 0 ? std::max(1u, device.cores) : std::min(wanted, std::max(1u, device.cores));
}

// As in Tape::streams.
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

// The tape is given up, so that there is memory to say why.
std::string why_full(const Run& run) {
  std::size_t bytes = 0;
  if (run.tape != nullptr) {
    bytes = run.tape->entries.size() * sizeof(Entry) + run.tape->footprints.size() * sizeof(Footprint);
    run.tape->entries = {};
    run.tape->footprints = {};
  }
  const std::string most = std::to_string(run.most_entries), taken = " (" + std::to_string(bytes >> 20) + " MiB)";
  if (run.entries >= run.most_entries)
    return "its tape has more than " + most + " entries" + taken + ", the most there may be";
  return "no memory is left behind entry " + std::to_string(run.entries) + " of its tape" + taken +
         ", which may have " + most;
}

void report_end(Run& run, Streams::End end) {
  if (!run.full && (end == Streams::End::finished || end == Streams::End::deadlock)) return;
  Report report;
  report.kind = ReportKind::capacity;
  report.message = run.full                     ? why_full(run)
                   : end == Streams::End::threw ? "the program threw an exception"
                                                : "no memory for the stacks of the cores";
  run.reports.add(std::move(report));
  run.failed = true;
}

}  // namespace

GlobalMemory::GlobalMemory(const Device& device, std::uint32_t cores, bool shadowed, bool data)
    : device_(device),
      cores_(core_count(device, cores)),
      memories_(device, cores_, static_cast<std::uint32_t>(streams_of_a_core(device, {}).size()), shadowed, data) {}

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
  result.buffer = memories_.add_global(std::move(name), data, {Region{0, 1, bytes, 0}}, use, site);
  return result;
}

NdTensor GlobalMemory::bind(std::string name, NdTensor window, std::byte* data, Use use, Site site) {
  Tensor& first = window.first;
  first.shape = {1, 1};
  first.pitch = 1;
  for (int axis = 0; axis < window.rank; ++axis)
    if (window.extent(axis) < 0) first.error = "a view has a negative extent";
  if (first.error != nullptr) return window;
  if (data == nullptr && !window.empty()) first.error = "a view has elements and no memory";
  if (use != Use::in && !elements_apart(window)) first.error = "elements of a view that is written share memory";
  const std::int64_t lowest = span_of(window).begin;  // counted from the first element, bytes of a buffer from its own
  if (bits(first.dtype) == 4)
    for (int axis = 0; axis < window.rank; ++axis)
      if (window.stride(axis) < 0) first.error = "a view of half bytes runs backwards";
  if (first.error != nullptr) return window;
  first.begin = static_cast<std::uint64_t>(-lowest);
  first.buffer = memories_.add_global(std::move(name), data + lowest, regions_of(window), use, site);
  return window;
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
  const std::uint64_t bytes = storage_bytes(result), first = taken_;
  taken_ += (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  if (!lent_) {
    result.buffer = memories_.add_workspace(std::move(name), bytes, nullptr, site);
  } else if (first + bytes > lent_->size()) {
    result.error = "a workspace is larger than what the caller has lent";
  } else {
    result.buffer = memories_.add_workspace(std::move(name), bytes, lent_->data() + first, site);
  }
  return result;
}

void GlobalMemory::lend(std::span<std::byte> workspace) { lent_ = workspace; }

void GlobalMemory::forget() {
  memories_.forget();
  lent_.reset();
  taken_ = 0;
}

std::vector<GlobalMemory::Named> GlobalMemory::named() const {
  std::vector<Named> result;
  for (std::uint32_t id = 0; id < memories_.permanent(); ++id) {
    const Buffer& buffer = memories_.buffer(id);
    result.push_back(
        {buffer.name, memories_.first_byte(id), buffer.bytes, memories_.use(id), buffer.workspace, buffer.site});
  }
  return result;
}

void GlobalMemory::name_again(const std::vector<Named>& tensors, std::span<std::byte* const> places) {
  forget();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const Named& tensor = tensors[i];
    if (tensor.workspace)
      memories_.add_workspace(tensor.name, tensor.bytes, places[i], tensor.site);
    else
      memories_.add_global(tensor.name, places[i], {Region{0, 1, tensor.bytes, 0}}, tensor.use, tensor.site);
  }
}

PlanningMemory::PlanningMemory(const Device& device, std::uint32_t cores) : GlobalMemory(device, cores, false, false) {}

Machine::Machine(const Device& device, Options options)
    : GlobalMemory(device, options.cores, options.compute && options.data, options.data),
      options_(std::move(options)) {}

Outcome Machine::run(const std::function<void(Core&)>& program, Launch launch) {
  memories_.restart();
  Outcome outcome;
  const std::vector<std::uint8_t> kinds = streams_of_a_core(device_, launch);
  outcome.tape.streams = kinds;
  const std::uint32_t cores = cores_of(launch);
  outcome.tape.cores = static_cast<std::uint16_t>(cores);
  Mutations mutations(options_.mutation);
  Streams streams;
  Run run{.device = device_, .cores = cores, .kinds = kinds, .memories = memories_, .streams = streams};
  Scheduler scheduler(device_, cores, kinds, options_.policy, options_.seed, memories_, run.reports, run.streams);
  run.scheduler = &scheduler;
  run.tape = options_.record ? &outcome.tape : nullptr;
  run.compute = options_.compute && options_.data;
  run.local_footprints = options_.local_footprints;
  run.most_entries = options_.entries;
  if (options_.data || options_.mutation) run.mutations = &mutations;  // a price asks for no points
  run.streams.stuck = [&] { scheduler.give_up(!run.failed); };
  const Streams::End end =
      run.streams.run(cores * static_cast<std::uint32_t>(run.kinds.size()), [&](std::uint32_t stream) {
        Core core(run, stream);
        try {
          program(core);
        } catch (const TapeIsFull&) {  // report_end says so
        }
      });
  report_end(run, end);
  if (end == Streams::End::finished && !run.failed) scheduler.report_unwritten_outputs();
  outcome.tape.buffers = memories_.buffers();
  outcome.reports = run.reports.take();
  outcome.points = mutations.points();
  return outcome;
}

FunctionalMachine::FunctionalMachine(const Device& device, std::uint32_t cores, tiles::HostProduct product)
    : GlobalMemory(device, cores, false), product_(product) {}

std::vector<Report> FunctionalMachine::run(const std::function<void(Core&)>& program, Launch launch, Script* script) {
  memories_.restart(script != nullptr && script->started());
  const std::uint32_t cores = cores_of(launch);
  Run run{.device = device_,
          .cores = cores,
          .kinds = streams_of_a_core(device_, launch),
          .memories = memories_,
          .streams = streams_};
  run.meetings.assign(cores * run.kinds.size(), 0);
  run.product = product_;
  run.host = &host_;
  run.script = script;
  if (script != nullptr) script->resume();
  run.streams.stuck = [&] {
    if (run.failed) return;
    Report report;
    report.kind = ReportKind::deadlock;
    report.message = "a core waits for another one that never comes; a checked run names the lines";
    run.reports.add(std::move(report));
  };
  const Streams::End end =
      run.streams.run(cores * static_cast<std::uint32_t>(run.kinds.size()), [&](std::uint32_t stream) {
        Core core(run, stream);
        program(core);
      });
  report_end(run, end);
  if (script != nullptr && end == Streams::End::finished && !run.failed) script->end();
  return run.reports.take();
}

}  // namespace inlay::npu
