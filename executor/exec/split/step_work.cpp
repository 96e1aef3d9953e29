#include <inlay/exec/split/step_work.hpp>

#include <algorithm>

namespace inlay::exec {

StepWork work_of_prompt(const GraphStep& step, const ModelConfig& config, index seen, index tokens) {
  StepWork work;
  for (const Access& access : step.accesses) {
    double bytes = static_cast<double>(access.rows * access.span);
    const bool cached = access.field.starts_with("k_cache") || access.field.starts_with("v_cache");
    if (cached) bytes *= static_cast<double>(step.rows) / static_cast<double>(tokens);
    if (step.name == "flash_attention" && (access.field == "k" || access.field == "v"))
      bytes *= static_cast<double>(seen) / static_cast<double>(tokens);
    // Of a table only rows are read, at most as wide as floats.
    if (step.name == "embedding" && access.field == "table") bytes = std::min(bytes, written_bytes(step));
    work.bytes += bytes;
  }
  work.flops = static_cast<double>(step.rows * step.width);
  if (const auto shape = linear_of(step)) work.flops *= 2 * static_cast<double>(shape->inputs);
  if (step.name == "flash_attention")
    work.flops = 4 * static_cast<double>(step.rows * seen * config.heads * config.layer(step.layer).head_dim);
  return work;
}

std::optional<LinearShape> linear_of(const GraphStep& step) {
  if (!step.name.starts_with("linear")) return std::nullopt;
  for (const Access& access : step.accesses)
    if (access.field == "x")  // rows of f32
      return LinearShape{.outputs = step.width,
                         .inputs = access.rows * access.span / static_cast<index>(sizeof(float)) / step.rows,
                         .tokens = step.rows};
  return std::nullopt;
}

double written_bytes(const GraphStep& step) { return static_cast<double>(step.rows * step.width) * sizeof(float); }

}  // namespace inlay::exec
