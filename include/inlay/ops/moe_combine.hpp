// What a token's experts gave, put together by their weights.      vLLM moe_unpermute; Ascend MoeFinalizeRouting
//
//   y[t,:] = sum_j weights[t,j] * x[rows[t,j],:] + f[t] * shared[t,:]
//
//   f[t] = 1 / (1 + exp(-shared_gate[t]))      Qwen2-MoE's shared expert; 1 without shared_gate (DeepSeek, Llama 4)
//   Without shared its product is left out.
//
// rows and weights are those of moe_routing, and x holds an expert's rows behind those of the expert before it.
//
// Summed in f32 in the order j = 0, 1, .., then shared, and rounded once: results do not depend on the threads. A row
// of x may be named by several tokens or by none; what the others hold never reaches y.
//
// An entry of rows outside x is refused before anything is written. In a device's memory it is met on the way: its row
// of y is not written, and the next finish() tells of it (core/backend.hpp).
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/inline.hpp>

namespace inlay {

template <class Space = Host> struct MoeCombine {
  ConstView<2, Space> x;                 // [rows, dim]      f32 f16 bf16; row stride free
  ConstView<2, Space> rows;              // [tokens, top_k]  i32, in 0..rows of x - 1; top_k >= 1
  ConstView<2, Space> weights;           // [tokens, top_k]  f32
  ConstView<2, Space> shared = {};       // [tokens, dim]    x's type; optional
  ConstView<2, Space> shared_gate = {};  // [tokens, 1]      f32 f16 bf16; optional, only with shared
  View<2, Space> y;                      // [tokens, dim]    f32 or x's type; may be shared itself

  static constexpr std::string_view name = "moe_combine";
  static constexpr auto fields = FieldList{in("x", &MoeCombine::x),
                                           in("rows", &MoeCombine::rows),
                                           in("weights", &MoeCombine::weights),
                                           optional_in("shared", &MoeCombine::shared),
                                           optional_in("shared_gate", &MoeCombine::shared_gate),
                                           out("y", &MoeCombine::y)};
};

inline namespace INLAY_UNIT_ISA {

template <class Space> Status check(const MoeCombine<Space>& op) {
  const index tokens = op.rows.extents[0], top_k = op.rows.extents[1];
  Status status = Check(op)
                      .dtype(op.x, floats)
                      .dtype(op.rows, DType::i32)
                      .that(top_k >= 1, op.rows, "has rows of none; top_k must be 1 or more")
                      .dtype(op.weights, DType::f32)
                      .same_shape(op.weights, op.rows)
                      .same_dtype(op.shared, op.x)
                      .same_shape(op.shared, op.y)
                      .dtype(op.shared_gate, floats)
                      .shape(op.shared_gate, {tokens, 1})
                      .that(!op.shared_gate.present() || op.shared.present(), op.shared_gate,
                            "is given without shared; it must be left out")
                      .dtype(op.y, DTypes{DType::f32, op.x.dtype})
                      .shape(op.y, {tokens, op.x.extents[1]})
                      .may_alias(op.y, op.shared);
  if constexpr (std::is_same_v<Space, Host>) {
    if (status.ok())
      for (index t = 0; t < tokens; ++t)
        for (index j = 0; j < top_k; ++j)
          if (const index row = op.rows.template as<std::int32_t>()[t * op.rows.strides[0] + j];
              row < 0 || row >= op.x.extents[0])
            return invalid("rows[" + number(t) + "," + number(j) + "] is " + number(row) + "; it must be in 0.." +
                           number(op.x.extents[0] - 1));
  }
  return status;
}

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
