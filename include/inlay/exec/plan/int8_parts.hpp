// A linear of int8 whose shadow outliers are operators of their own (mllm-NPU: Xu et al., 2025, section 3.3), so that a
// device of integers multiplies while the processor has what was clipped:
//
//   x -+- quantize - linear_int8, i32 -+- finish_int8 - y
//      +- outliers_of_int8 ------------+
//
// The sums of integers are exact on every backend, and all else is rounded as LinearInt8 rounds it on the CPU, in its
// order: y has the CPU's bits, whichever device multiplies.
#pragma once

#include <cstdint>
#include <string_view>

#include <inlay/core/check.hpp>
#include <inlay/cpu.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/quantize.hpp>

namespace inlay::exec {

// y[t,o] = sum_i (r - q) * w[o,i]    r = round(x[t,i] / x_scale), q = r within -128..127
// NaN, where a row of x holds NaN or infinity.
template <class Space = Host> struct OutliersOfInt8 {
  ConstView<2, Space> x;        // [tokens, k]  f32; row stride free
  ConstView<1, Space> x_scale;  // [1]          f32
  ConstView<3, Space> weight;   // as LinearInt8's
  View<2, Space> y;             // [tokens, n]  f32; contiguous

  static constexpr std::string_view name = "outliers_of_int8";
  static constexpr auto fields = FieldList{in("x", &OutliersOfInt8::x), in("x_scale", &OutliersOfInt8::x_scale),
                                           in("weight", &OutliersOfInt8::weight), out("y", &OutliersOfInt8::y)};
};
template <class Space> Status check(const OutliersOfInt8<Space>& op) {
  return Check(op)
      .dtype(op.x, DType::f32)
      .dtype(op.x_scale, DType::f32)
      .extent(op.x_scale, 0, 1)
      .dtype(op.weight, DType::i8)
      .shape(op.weight, linear_int8::packed_extents(op.y.extents[1], op.x.extents[1]))
      .contiguous(op.weight)
      .dtype(op.y, DType::f32)
      .extent(op.y, 0, op.x.extents[0])
      .contiguous(op.y);
}

// y[t,o] = (acc[t,o] + outliers[t,o]) * (x_scale * weight_scale[o]) + bias[o]
template <class Space = Host> struct FinishInt8 {
  ConstView<2, Space> acc;           // [tokens, n]  i32; contiguous
  ConstView<2, Space> outliers;      // [tokens, n]  f32; contiguous
  ConstView<1, Space> x_scale;       // [1]          f32
  ConstView<1, Space> weight_scale;  // [1] or [n]   f32
  ConstView<1, Space> bias = {};     // [n]          f32 f16 bf16; optional
  View<2, Space> y;                  // [tokens, n]  f32; row stride free

  static constexpr std::string_view name = "finish_int8";
  static constexpr auto fields = FieldList{in("acc", &FinishInt8::acc),
                                           in("outliers", &FinishInt8::outliers),
                                           in("x_scale", &FinishInt8::x_scale),
                                           in("weight_scale", &FinishInt8::weight_scale),
                                           optional_in("bias", &FinishInt8::bias),
                                           out("y", &FinishInt8::y)};
};
template <class Space> Status check(const FinishInt8<Space>& op) {
  const index tokens = op.y.extents[0], n = op.y.extents[1];
  const bool scaled = op.weight_scale.extents[0] == 1 || op.weight_scale.extents[0] == n;
  return Check(op)
      .dtype(op.acc, DType::i32)
      .shape(op.acc, {tokens, n})
      .contiguous(op.acc)
      .dtype(op.outliers, DType::f32)
      .shape(op.outliers, {tokens, n})
      .contiguous(op.outliers)
      .dtype(op.x_scale, DType::f32)
      .extent(op.x_scale, 0, 1)
      .dtype(op.weight_scale, DType::f32)
      .that(scaled, op.weight_scale,
            [&] { return "has extent " + number(op.weight_scale.extents[0]) + "; it must be 1 or " + number(n); })
      .dtype(op.bias, floats)
      .extent(op.bias, 0, n)
      .dtype(op.y, DType::f32);
}

// Only the processor has these: sums of a few columns, and a pass over what is there.
inline Status supports(const Cpu&, const OutliersOfInt8<Host>&) { return {}; }
inline std::size_t scratch_bytes(const Cpu&, const OutliersOfInt8<Host>&) { return 0; }
Status compute(const Cpu& cpu, const OutliersOfInt8<Host>& op, const Workspace& workspace);
inline Status supports(const Cpu&, const FinishInt8<Host>&) { return {}; }
inline std::size_t scratch_bytes(const Cpu&, const FinishInt8<Host>&) { return 0; }
Status compute(const Cpu& cpu, const FinishInt8<Host>& op, const Workspace& workspace);

// May it be computed so? Float x with a static scale, and nothing else that is seldom there.
bool has_int8_parts(const LinearInt8<Host>& op);

// The line with each such linear in its parts, recorded for `Backends` and, what the processor alone has, for Cpu. What
// lies between them takes memory of `tensors`, which all linears share: an arena takes it apart.
template <class... Backends> Status take_int8_apart(StepGraph& graph, HostTensors& tensors) {
  index tokens = 0, inputs = 0, outputs = 0;
  const auto parted = [](const GraphStep& step) {
    if (step.name != LinearInt8<Host>::name) return static_cast<const LinearInt8<Host>*>(nullptr);
    const auto* const op = static_cast<const LinearInt8<Host>*>(step.op());
    return has_int8_parts(*op) ? op : nullptr;
  };
  for (const GraphStep& step : std::as_const(graph).steps())
    if (const auto* op = parted(step)) {
      tokens = std::max(tokens, op->x.extents[0]);
      inputs = std::max(inputs, op->x.extents[1]);
      outputs = std::max(outputs, op->y.extents[1]);
    }
  if (tokens == 0) return {};
  View<2> q, acc, clipped;
  Status status = take(tensors, DType::i8, {tokens, inputs}, q);
  if (status.ok()) status = take(tensors, DType::i32, {tokens, outputs}, acc);
  if (status.ok()) status = take(tensors, DType::f32, {tokens, outputs}, clipped);
  if (!status.ok()) return status;
  StepGraph rewritten;
  for (const GraphStep& step : std::as_const(graph).steps()) {
    const auto* const op = parted(step);
    if (op == nullptr) {
      rewritten.add(step);
      continue;
    }
    const index rows = op->x.extents[0], n = op->y.extents[1];
    const View<2> own_q(q.data, DType::i8, {rows, op->x.extents[1]}), own_acc(acc.data, DType::i32, {rows, n}),
        own_clipped(clipped.data, DType::f32, {rows, n});
    GraphRecorder<Backends...> record(rewritten, step.chunk);
    GraphRecorder<Cpu> record_here(rewritten, step.chunk);
    record.enter_layer(step.layer), record_here.enter_layer(step.layer);
    record(Quantize<Host>{.x = op->x, .scale = ConstView<2>(op->x_scale.data, DType::f32, {1, 1}), .y = own_q});
    record(LinearInt8<Host>{.x = own_q, .weight = op->weight, .weight_sum = op->weight_sum, .y = own_acc});
    record_here(OutliersOfInt8<Host>{.x = op->x, .x_scale = op->x_scale, .weight = op->weight, .y = own_clipped});
    record_here(FinishInt8<Host>{.acc = own_acc,
                                 .outliers = own_clipped,
                                 .x_scale = op->x_scale,
                                 .weight_scale = op->weight_scale,
                                 .bias = op->bias,
                                 .y = op->y});
    status = record.take_status();
    if (status.ok()) status = record_here.take_status();
    if (!status.ok()) return status;
  }
  graph = std::move(rewritten);
  return {};
}

}  // namespace inlay::exec
