#include "npu_kernels/backend/runtime.hpp"

#include <cstdint>
#include <utility>

#include <inlay/cpu.hpp>

#include "npu_kernels/backend/abilities.hpp"
#include "npu_kernels/backend/host_product.hpp"
#include "tile_machine/check/checker.hpp"

namespace inlay::npu {

namespace {

Status failed(std::string_view op, const Report& report) {
  return {StatusCode::internal, std::string(op) + ": " + std::string(name(report.kind)) + ": " + report.message};
}

// With no more cores than programs may use: what they are priced for is what they run on.
Device of_cores(Device device, std::uint32_t cores) {
  if (cores > 0) device.cores = cores;
  return device;
}

}  // namespace

Runtime::Runtime(NpuOptions options, Device device)
    : options_(std::move(options)),
      device_(of_cores(std::move(device), options_.cores)),
      tries_programs_(!can_what_ours_can(device_)),
      machine_(device_, options_.cores, host_product(Cpu(serial()).isa())),
      planning_(device_, options_.cores) {}

Prepared* Runtime::prepared() { return programs_.find(call_.key()); }

Prepared& Runtime::prepare(const Build& build, std::vector<std::shared_ptr<void>> kept) {
  Prepared prepared;
  prepared.program = build(planning());
  prepared.workspace_bytes = planning_.workspace_bytes();
  prepared.tensors = planning_.named();
  prepared.kept = std::move(kept);
  if (tries_programs_) prepared.lacks = lacks(build);
  if (programs_.size() >= most_kept) make_room();
  return programs_.put(call_.key(), std::move(prepared));
}

// A run in which no byte is touched. What else it reports (a memory that is too small) the true run reports as well.
std::string Runtime::lacks(const Build& build) const {
  Machine machine(device_, {.cores = options_.cores, .record = false, .data = false});
  const Program program = build(machine);
  const Outcome outcome = machine.run(program.body, program.launch);
  for (const Report& report : outcome.reports)
    if (report.kind == ReportKind::illegal_path) return device_.name + ": " + report.message;
  return {};
}

Status Runtime::run(std::string_view op, Prepared& prepared, const Workspace& workspace) {
  if (Status status = check_workspace<Host>(workspace, prepared.workspace_bytes); !status.ok()) return status;
  places_.clear();
  WorkspaceCutter cutter(workspace);
  for (const GlobalMemory::Named& tensor : prepared.tensors)
    places_.push_back(tensor.workspace ? cutter.take<std::byte>(static_cast<index>(tensor.bytes))
                                       : call_.place(tensor.place));
  prepared.script.place(places_);
  if (prepared.script.play()) return {};
  machine_.name_again(prepared.tensors, places_);
  const std::vector<Report> reports = machine_.run(prepared.program.body, prepared.program.launch, &prepared.script);
  if (!reports.empty()) prepared.script.clear();
  bytes_ += prepared.script.bytes() - prepared.script_bytes;
  prepared.script_bytes = prepared.script.bytes();
  if (bytes_ > most_script_bytes) make_room();
  return reports.empty() ? Status() : failed(op, reports.front());
}

void Runtime::make_room() {
  programs_.halve([&](const Prepared& program) { bytes_ -= program.script_bytes; });
}

Status Runtime::run_checked(std::string_view op, const Workspace& workspace, const Build& build) {
  Machine machine(device_, {.cores = options_.cores});
  machine.lend(workspace);
  const Program program = build(machine);
  const Outcome outcome = machine.run(program.body, program.launch);
  if (!outcome.ok()) return failed(op, outcome.reports.front());
  const std::vector<Report> reports = check(outcome.tape, device_);
  return reports.empty() ? Status() : failed(op, reports.front());
}

PricedProgram Runtime::to_price(std::string name, const Build& build) {
  // One build for the problem and the launch, which the tape is asked with.
  const Program plan = build(planning());
  return {.name = std::move(name),
          .sizes = {},
          .types = {},
          .problem = plan.problem,
          .build = [&build](GlobalMemory& memory) { return build(memory).body; },
          .launch = plan.launch};
}

const NpuPrice* Runtime::priced() { return priced_.find(call_.key()); }

Expected<NpuPrice> Runtime::price(const Build& build) {
  auto found = npu::price(device_, to_price(call_.key().c_str(), build));
  if (!found) return failure(std::move(found.error()));
  NpuPrice price{found->cycles, found->us, found->bytes, found->bound, found->problem_share, found->us_at_share};
  priced_.make_room(most_kept);
  return priced_.put(call_.key(), std::move(price));
}

Expected<Plan> Runtime::plan(std::string_view op, const Build& build) {
  const PricedProgram program = to_price(std::string(op), build);
  auto tape = tape_of(device_, program);
  if (!tape) return failure(std::move(tape.error()));
  return Plan{std::move(*tape), program.problem};
}

GlobalMemory& Runtime::planning() {
  planning_.forget();
  return planning_;
}

Status Runtime::pack(std::string_view op, const WeightForm& weight, const Packing& packing,
                     std::span<std::byte> memory) {
  const auto refused = [&](const std::string& why) { return invalid(std::string(op) + ": memory " + why); };
  if (memory.size() < packing.bytes)
    return refused("has " + std::to_string(memory.size()) + " bytes; it must have at least " +
                   std::to_string(packing.bytes) + " (packed_bytes)");
  if (reinterpret_cast<std::uintptr_t>(memory.data()) % workspace_alignment != 0)
    return refused("begins at an address that is no multiple of 64; it must be aligned to 64 bytes");
  memory = memory.first(packing.bytes);
  if (overlap(memory, bytes_of(weight))) return refused("overlaps the weight; it must be memory of its own");
  if (packed_.holds_another(memory, weight))
    return refused("holds the blocks of another weight; it must be free, or forgotten");
  packed_.remove(weight);
  const auto build = [&](GlobalMemory& global) { return packing.lay_out(global, memory.data()); };
  if (options_.mode == NpuMode::checked) {
    if (Status status = run_checked(op, {}, build); !status.ok()) return status;
  } else {
    machine_.forget();
    const Program program = build(machine_);
    const std::vector<Report> reports = machine_.run(program.body, program.launch);
    if (!reports.empty()) return failed(op, reports.front());
  }
  packed_.add(weight, memory);
  return {};
}

}  // namespace inlay::npu
