#include "tools/npu/planned.hpp"

#include <utility>

#include "npu_kernels/backend/runtime.hpp"
#include "tools/npu/shape.hpp"

namespace inlay::tools {

Expected<Planned> plan_of(const NpuOptions& options, const std::string& op, const std::string& shape,
                          npu::VerbLog* verbs) {
  const auto known = planned_operators().find(op);
  if (op.empty()) return failure(invalid("an operator is missing (see inlay npu --help)"));
  if (known == planned_operators().end()) {
    std::string names;
    for (const auto& [name, plan] : planned_operators()) names.append(names.empty() ? "" : ", ").append(name);
    return failure(invalid(op + " is no operator; it must be one of " + names));
  }
  auto sizes = Shape::parse(shape);
  if (!sizes) return failure(std::move(sizes.error()));
  auto npu = Npu::make(options);
  if (!npu) return failure(std::move(npu.error()));
  auto plan = known->second(*npu, *sizes, verbs);
  if (!plan) return failure(std::move(plan.error()));
  return Planned{npu->runtime().device(), std::move(*plan)};
}

}  // namespace inlay::tools
