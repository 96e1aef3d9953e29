#include "npu_kernels/backend/runtime.hpp"

#include <cstdint>
#include <utility>

#include <inlay/core/threads.hpp>
#include <inlay/cpu.hpp>

#include "npu_kernels/backend/features.hpp"
#include "npu_kernels/backend/host_product.hpp"
#include "tile_machine/check/checker.hpp"

namespace inlay::npu {

namespace {

Status failed(std::string_view op, const Report& report) {
  return {StatusCode::internal, std::string(op) + ": " + std::string(name(report.kind)) + ": " + report.message};
}

// With no more cores than programs may use: what they are estimated for is what they run on.
Device of_cores(Device device, std::uint32_t cores) {
  if (cores > 0) device.cores = cores;
  return device;
}

}  // namespace

Runtime::Runtime(NpuOptions options, Device device)
    : options_(std::move(options)),
      device_(of_cores(std::move(device), options_.cores)),
      tries_programs_(!has_known_features(device_)),
      machine_(device_, options_.cores, host_product(Cpu(serial()).isa())),
      planning_(device_, options_.cores) {}

std::byte* Runtime::describe(const AnyOperator& op) {
  call_.start(op.name());
  op.add_to(call_);
  const WeightForm weight = op.weight(device_);
  if (weight.place == nullptr) return nullptr;
  const std::span<std::byte> blocks = packed_.find(weight);
  call_.operand(ConstView<1>(blocks.data(), DType::i8, {static_cast<index>(blocks.size())}), false);
  return blocks.data();
}

CachedProgram& Runtime::cached(const AnyOperator& op) {
  std::byte* blocks = describe(op);
  if (CachedProgram* known = programs_.find(call_.key())) return *known;
  CachedProgram fresh;
  fresh.op = op.with_symbols(call_);
  if (blocks != nullptr) blocks = call_.symbol(call_.operands() - 1);
  const auto build = [&](GlobalMemory& memory) { return fresh.op->make_program(memory, choices(blocks)); };
  fresh.program = build(planning());
  fresh.workspace_bytes = planning_.workspace_bytes();
  fresh.tensors = planning_.named();
  if (tries_programs_) fresh.lacks = lacks(build);
  if (programs_.size() >= max_kept) make_room();
  return programs_.put(call_.key(), std::move(fresh));
}

Status Runtime::supports(const AnyOperator& op) {
  if (Status status = op.refusal(device_); !status.ok()) return status;
  if (!tries_programs_ || op.nothing_to_write()) return {};
  const std::string& lacks = cached(op).lacks;
  return lacks.empty() ? Status() : unsupported(lacks);
}

Status Runtime::compute(const AnyOperator& op, const Workspace& workspace) {
  if (options_.mode == NpuMode::functional) return run(op.name(), cached(op), workspace);
  std::byte* const blocks = describe(op);
  return run_checked(op.name(), workspace,
                     [&](GlobalMemory& memory) { return op.make_program(memory, choices(blocks)); });
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

Status Runtime::run(std::string_view op, CachedProgram& cached, const Workspace& workspace) {
  if (Status status = check_workspace<Host>(workspace, cached.workspace_bytes); !status.ok()) return status;
  places_.clear();
  WorkspaceCutter cutter(workspace);
  for (const GlobalMemory::Named& tensor : cached.tensors)
    places_.push_back(tensor.workspace ? cutter.take<std::byte>(static_cast<index>(tensor.bytes))
                                       : call_.place(tensor.place));
  cached.log.place(places_);
  if (cached.log.play()) return {};
  machine_.name_again(cached.tensors, places_);
  const std::vector<Report> reports = machine_.run(cached.program.body, cached.program.launch, &cached.log);
  if (!reports.empty()) cached.log.clear();
  bytes_ += cached.log.bytes() - cached.log_bytes;
  cached.log_bytes = cached.log.bytes();
  if (bytes_ > max_log_bytes) make_room();
  return reports.empty() ? Status() : failed(op, reports.front());
}

void Runtime::make_room() {
  programs_.halve([&](const CachedProgram& program) { bytes_ -= program.log_bytes; });
}

Status Runtime::run_checked(std::string_view op, const Workspace& workspace, const Build& build) {
  Machine machine(device_, {.cores = options_.cores});
  machine.lend(workspace);
  const Program program = build(machine);
  const Outcome outcome = machine.run(program.body, program.launch);
  if (!outcome.ok()) return failed(op, outcome.reports.front());
  const std::vector<Report> reports = check(outcome.log, device_);
  return reports.empty() ? Status() : failed(op, reports.front());
}

EstimateRequest Runtime::request_of(std::string name, const Build& build) {
  // One build for the problem and the launch, which the log is asked with.
  const Program plan = build(planning());
  return {.name = std::move(name),
          .sizes = {},
          .types = {},
          .problem = plan.problem,
          .build = [&build](GlobalMemory& memory) { return build(memory).body; },
          .launch = plan.launch};
}

Expected<NpuEstimate> Runtime::estimate(const AnyOperator& op) {
  std::byte* const blocks = describe(op);
  if (const NpuEstimate* known = estimated_.find(call_.key())) return *known;
  const auto build = [&](GlobalMemory& memory) { return op.make_program(memory, choices(blocks)); };
  auto found = npu::estimate(device_, request_of(call_.key().c_str(), build), threads());
  if (!found) return failure(std::move(found.error()));
  NpuEstimate estimate{found->cycles, found->us, found->bytes, found->bound, found->problem_share, found->us_at_share};
  estimated_.make_room(max_kept);
  return estimated_.put(call_.key(), std::move(estimate));
}

Expected<Plan> Runtime::plan(const AnyOperator& op) {
  std::byte* const blocks = describe(op);
  const Build build = [&](GlobalMemory& memory) { return op.make_program(memory, choices(blocks)); };
  const EstimateRequest program = request_of(std::string(op.name()), build);
  auto log = events_of(device_, program);
  if (!log) return failure(std::move(log.error()));
  return Plan{std::move(*log), program.problem};
}

GlobalMemory& Runtime::planning() {
  planning_.forget();
  return planning_;
}

Status Runtime::pack(const AnyOperator& op, std::span<std::byte> memory) {
  const Packing packing = op.make_packing(planning(), choices());
  if (packing.bytes == 0) return {};
  const WeightForm weight = op.weight(device_);
  const auto refused = [&](const std::string& why) { return invalid(std::string(op.name()) + ": memory " + why); };
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
    if (Status status = run_checked(op.name(), {}, build); !status.ok()) return status;
  } else {
    machine_.forget();
    const Program program = build(machine_);
    const std::vector<Report> reports = machine_.run(program.body, program.launch);
    if (!reports.empty()) return failed(op.name(), reports.front());
  }
  packed_.add(weight, memory);
  return {};
}

}  // namespace inlay::npu
