// One node of an ONNX model with its inputs, and how Inlay's operators compute it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include <inlay/exec/eager.hpp>

#include "tools/onnx/tensor.hpp"

namespace inlay::tools {

// The last version of ONNX's operators that was read for this.
inline constexpr int latest_opset = 28;

struct OnnxNode {
  std::string op_type;
  std::map<std::string, std::variant<std::int64_t, double, std::string>> attributes;
  std::vector<std::optional<OnnxTensor>> inputs;  // nullopt: left out
  std::vector<bool> outputs;                      // which are asked for
  int opset = latest_opset;                       // of the model: what an operator means depends on it

  std::int64_t integer(const std::string& name, std::int64_t otherwise) const;
  double number(const std::string& name, double otherwise) const;
  std::string text(const std::string& name, const std::string& otherwise) const;
  bool has(std::size_t input) const { return input < inputs.size() && inputs[input].has_value(); }
  // An axis counted from the front.
  index axis(const std::string& name, std::int64_t otherwise, index rank) const;
};

// By position; an output that is not asked for may be empty.
using OnnxOutputs = std::vector<std::optional<OnnxTensor>>;

// Checks the node (onnx_check.hpp) and runs it. unsupported: no operator of Inlay covers it, for the reason given.
Expected<OnnxOutputs> run_node(exec::Eager& run, OnnxNode& node);

// Each takes its inputs from a node that check_node let pass.
Expected<OnnxOutputs> run_attention(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_rotary_embedding(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_tensor_scatter(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_matmul(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_matmul_integer(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_qlinear_matmul(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_quantize(exec::Eager& run, OnnxNode& node);
Expected<OnnxOutputs> run_dequantize(exec::Eager& run, OnnxNode& node);

// What an operator wrote, or why it did not.
inline Expected<OnnxOutputs> finish(exec::Eager& run, OnnxOutputs outputs) {
  if (Status status = run.take_status(); !status.ok()) return failure(std::move(status));
  return outputs;
}

}  // namespace inlay::tools
