#include "npu_kernels/backend/runtime.hpp"

#include <cstdint>
#include <utility>

#include <inlay/cpu.hpp>

#include "npu_kernels/backend/host_product.hpp"
#include "tile_machine/check/checker.hpp"

namespace inlay::npu {

namespace {

Status failed(std::string_view op, const Report& report) {
  return {StatusCode::internal, std::string(op) + ": " + std::string(name(report.kind)) + ": " + report.message};
}

}  // namespace

Runtime::Runtime(NpuOptions options, Device device)
    : options_(std::move(options)),
      costs_(std::move(device), options_.cores, options_.activations),
      machine_(this->device(), options_.cores, host_product(Cpu(serial()).isa())),
      planning_(FunctionalMachine::without_data(this->device(), options_.cores)) {}

CachedProgram& Runtime::cached(const AnyOperator& op) {
  std::byte* blocks = describe(op);
  if (CachedProgram* known = programs_.find(call_.key())) return *known;
  CachedProgram fresh;
  fresh.op = op.with_symbols(call_);
  if (blocks != nullptr) blocks = call_.symbol(call_.operands() - 1);
  fresh.program = fresh.op->make_program(planning(), choices(blocks));
  fresh.workspace_bytes = planning_.workspace_bytes();
  fresh.tensors = planning_.named();
  fresh.lacks = lacks(fresh.program);
  if (programs_.size() >= max_kept) make_room();
  return programs_.put(call_.key(), std::move(fresh));
}

Status Runtime::supports(const AnyOperator& op) {
  if (Status status = op.refusal(device()); !status.ok()) return status;
  if (op.nothing_to_write()) return {};
  const std::string& lacks = cached(op).lacks;
  return lacks.empty() ? Status() : unsupported(lacks);
}

Status Runtime::compute(const AnyOperator& op, const Workspace& workspace) {
  if (options_.mode == NpuMode::functional) return run(op.name(), cached(op), workspace);
  std::byte* const blocks = describe(op);
  return run_checked(op.name(), workspace,
                     [&](GlobalMemory& memory) { return op.make_program(memory, choices(blocks)); });
}

// The first report: of a memory that is too small, of flags that are too few, of a verb that the device does not have.
std::string Runtime::lacks(const Program& program) {
  const std::vector<Report> reports = planning_.run(program.body, program.launch);
  return reports.empty() ? "" : device().name + ": " + reports.front().message;
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
  Machine machine(device(), {.cores = options_.cores});
  machine.lend(workspace);
  const Program program = build(machine);
  const Outcome outcome = machine.run(program.body, program.launch);
  if (!outcome.ok()) return failed(op, outcome.reports.front());
  const std::vector<Report> reports = check(outcome.log, device());
  return reports.empty() ? Status() : failed(op, reports.front());
}

GlobalMemory& Runtime::planning() {
  planning_.forget();
  return planning_;
}

Packing Runtime::packing_of(const AnyOperator& op) {
  Packing packing = op.make_packing(planning(), choices());
  auto* const anywhere = reinterpret_cast<std::byte*>(std::uintptr_t{1} << 62);  // nothing is written
  if (packing.bytes > 0 && !lacks(packing.lay_out(planning(), anywhere)).empty()) packing.bytes = 0;
  return packing;
}

Status Runtime::pack(const AnyOperator& op, std::span<std::byte> memory) {
  const Packing packing = packing_of(op);
  if (packing.bytes == 0) return {};
  const WeightForm weight = op.weight(device());
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
