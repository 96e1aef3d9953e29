#include "tools/onnx/node.hpp"

#include "tools/onnx/check.hpp"

#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>

namespace inlay::tools {

std::int64_t OnnxNode::integer(const std::string& name, std::int64_t otherwise) const {
  const auto at = attributes.find(name);
  const auto* value = at == attributes.end() ? nullptr : std::get_if<std::int64_t>(&at->second);
  return value ? *value : otherwise;
}
double OnnxNode::number(const std::string& name, double otherwise) const {
  const auto at = attributes.find(name);
  const auto* value = at == attributes.end() ? nullptr : std::get_if<double>(&at->second);
  return value ? *value : otherwise;
}
std::string OnnxNode::text(const std::string& name, const std::string& otherwise) const {
  const auto at = attributes.find(name);
  const auto* value = at == attributes.end() ? nullptr : std::get_if<std::string>(&at->second);
  return value ? *value : otherwise;
}
index OnnxNode::axis(const std::string& name, std::int64_t otherwise, index rank) const {
  const index value = integer(name, otherwise);
  return value < 0 ? value + rank : value;
}

namespace {

tl::unexpected<Status> no(const std::string& reason) { return failure(StatusCode::unsupported, reason); }

// Dimension `axis` moved to the end, and the order that moves it back.
std::pair<std::vector<index>, std::vector<index>> to_the_end(index axis, index rank) {
  std::vector<index> there, back(static_cast<std::size_t>(rank));
  for (index d = 0; d < rank; ++d)
    if (d != axis) there.push_back(d);
  there.push_back(axis);
  for (index d = 0; d < rank; ++d) back[there[d]] = d;
  return {there, back};
}

Expected<OnnxOutputs> run_rms_norm(exec::Eager& run, OnnxNode& node) {
  OnnxTensor& x = *node.inputs[0];
  OnnxTensor y(x.dtype, x.dims);
  const index axis = node.axis("axis", -1, x.rank());
  run(RmsNorm<Host>{.x = x.rows(axis),
                    .weight = node.inputs[1]->view<1>({node.inputs[1]->size()}),
                    .y = y.rows(axis),
                    .eps = static_cast<float>(node.number("epsilon", 1e-5))});
  return finish(run, {y});
}

Expected<OnnxOutputs> run_softmax(exec::Eager& run, OnnxNode& node) {
  const index rank = node.inputs[0]->rank();
  if (node.opset < 13) {  // the axes from this one on are one row
    OnnxTensor& x = *node.inputs[0];
    OnnxTensor y(x.dtype, x.dims);
    const index axis = node.axis("axis", 1, rank), rows = x.extent(0, axis), n = x.extent(axis, rank);
    run(Softmax<Host>{.x = x.view<3>({1, rows, n}), .y = y.view<3>({1, rows, n})});
    return finish(run, {y});
  }
  const index axis = node.axis("axis", -1, rank);
  const auto [there, back] = to_the_end(axis, rank);
  OnnxTensor x = transposed(*node.inputs[0], there), y(x.dtype, x.dims);
  const index n = x.dims.back(), rows = n ? x.size() / n : 0;
  run(Softmax<Host>{.x = x.view<3>({1, rows, n}), .y = y.view<3>({1, rows, n})});
  return finish(run, {transposed(y, back)});
}

Expected<OnnxOutputs> run_gelu(exec::Eager& run, OnnxNode& node) {
  OnnxTensor& x = *node.inputs[0];
  OnnxTensor y(x.dtype, x.dims);
  const GeluForm form = node.text("approximate", "none") == "tanh" ? GeluForm::tanh : GeluForm::erf;
  run(Gelu<Host>{.x = x.rows(0), .y = y.rows(0), .form = form});
  return finish(run, {y});
}

Expected<OnnxOutputs> run_swiglu(exec::Eager& run, OnnxNode& node) {
  OnnxTensor &a = *node.inputs[0], &b = *node.inputs[1];
  OnnxTensor y(a.dtype, a.dims);
  run(Swiglu<Host>{
      .gate = a.rows(0), .up = b.rows(0), .y = y.rows(0), .alpha = static_cast<float>(node.number("alpha", 1))});
  return finish(run, {y});
}

Expected<OnnxOutputs> run_gather(exec::Eager& run, OnnxNode& node) {
  OnnxTensor &data = *node.inputs[0], &ids = *node.inputs[1];
  std::vector<index> dims = ids.dims;
  dims.insert(dims.end(), data.dims.begin() + 1, data.dims.end());
  OnnxTensor y(data.dtype, dims), rows = ids;
  for (index i = 0; i < ids.size(); ++i)
    if (ids.get(i) < 0) rows.set(i, ids.get(i) + static_cast<double>(data.dims[0]));  // ONNX counts from the end
  const index width = data.extent(1, data.rank());
  run(Embedding<Host>{.table = data.view<2>({data.dims[0], width}),
                      .ids = rows.view<1>({rows.size()}),
                      .y = y.view<2>({rows.size(), width})});
  return finish(run, {y});
}

// Greedy sampling is argmax with the first index on ties.
Expected<OnnxOutputs> run_argmax(exec::Eager& run, OnnxNode& node) {
  const index rank = node.inputs[0]->rank();
  const index axis = node.axis("axis", 0, rank);
  if (node.integer("select_last_index", 0) != 0) return no("sampling takes the first of equal logits, not the last");
  const auto [there, back] = to_the_end(axis, rank);
  OnnxTensor x = transposed(*node.inputs[0], there);
  const index n = x.dims.back(), rows = n ? x.size() / n : 0;
  std::vector<index> dims = node.inputs[0]->dims;
  if (node.integer("keepdims", 1) != 0)
    dims[axis] = 1;
  else
    dims.erase(dims.begin() + axis);
  OnnxTensor y(DType::i64, dims);
  run(Sampling<Host>{.logits = x.view<2>({rows, n}), .tokens = y.view<1>({rows}), .temperature = 0});
  return finish(run, {y});
}

// No operator, but the conversions of core/dtype.hpp that all operators round with.
Expected<OnnxOutputs> run_cast(exec::Eager&, OnnxNode& node) {
  const int to = static_cast<int>(node.integer("to", 0));
  for (DType type : {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i4, DType::u4}) {
    if (onnx_type(type) != to) continue;
    if (!floats.contains(type) && floats.contains(node.inputs[0]->dtype))
      return no("conversions to integers saturate, ONNX's Cast wraps around");
    return OnnxOutputs{converted(*node.inputs[0], type)};
  }
  return no("no type " + onnx_type_name(to));
}

struct Mapping {
  const char* op_type;
  Expected<OnnxOutputs> (*run)(exec::Eager&, OnnxNode&);
};

constexpr Mapping mappings[] = {{"Attention", run_attention},
                                {"RotaryEmbedding", run_rotary_embedding},
                                {"TensorScatter", run_tensor_scatter},
                                {"RMSNormalization", run_rms_norm},
                                {"Softmax", run_softmax},
                                {"SwiGLU", run_swiglu},
                                {"Gelu", run_gelu},
                                {"MatMul", run_matmul},
                                {"MatMulInteger", run_matmul_integer},
                                {"QLinearMatMul", run_qlinear_matmul},
                                {"QuantizeLinear", run_quantize},
                                {"DequantizeLinear", run_dequantize},
                                {"Gather", run_gather},
                                {"ArgMax", run_argmax},
                                {"Cast", run_cast}};

}  // namespace

Expected<OnnxOutputs> run_node(exec::Eager& run, OnnxNode& node) {
  if (Status status = check_node(node); !status.ok()) return failure(std::move(status));
  for (const Mapping& mapping : mappings) {
    if (node.op_type != mapping.op_type) continue;
    try {
      return mapping.run(run, node);
    } catch (TooBig) {
      (void)run.take_status();
      return failure(StatusCode::out_of_memory, node.op_type + " needs a tensor of more than " +
                                                    std::to_string(largest_tensor) + " elements or bytes");
    }
  }
  return no("no operator for " + node.op_type);
}

}  // namespace inlay::tools
