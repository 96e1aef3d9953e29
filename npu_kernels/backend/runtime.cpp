#include "npu_kernels/backend/runtime.hpp"

#include <utility>

#include "npu_kernels/machine/check/checker.hpp"

namespace inlay::npu {

namespace {

Status failed(std::string_view op, const Report& report) {
  return {StatusCode::internal, std::string(op) + ": " + std::string(name(report.kind)) + ": " + report.message};
}

}  // namespace

Runtime::Runtime(NpuOptions options, Device device)
    : options_(std::move(options)),
      device_(std::move(device)),
      machine_(device_, options_.cores),
      planning_(device_, options_.cores) {}

std::size_t Runtime::scratch_bytes(const Build& build) {
  planning_.forget();
  build(planning_);
  return planning_.workspace_bytes();
}

Status Runtime::run(std::string_view op, const Workspace& workspace, const Build& build) {
  if (options_.mode == NpuMode::checked) return run_checked(op, workspace, build);
  machine_.forget();
  machine_.lend(workspace);
  const Program program = build(machine_);
  const std::vector<Report> reports = machine_.run(program.body, program.launch);
  return reports.empty() ? Status() : failed(op, reports.front());
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

Expected<NpuPrice> Runtime::price(const std::string& key, const Build& build) {
  // One build for the problem and the launch, which the price is asked with.
  planning_.forget();
  const Program plan = build(planning_);
  const PricedProgram priced{.name = key,
                             .sizes = {},
                             .types = {},
                             .problem = plan.problem,
                             .build = [&](GlobalMemory& memory) { return build(memory).body; },
                             .launch = plan.launch};
  auto found = prices_.of(device_, priced);
  if (!found) return failure(std::move(found.error()));
  return NpuPrice{found->cycles, found->us, found->bytes, found->bound, found->problem_share, found->us_at_share};
}

}  // namespace inlay::npu
