// What npu_kernels/<op>.cpp gives to the NPU backend (npu.hpp): its operator, without the type.
#pragma once

namespace inlay {

// Matrix units take f16, bf16 and int8. `exact`: an f32 operand goes in two halves, so that tolerances are those of
// every backend. `f16`: it is rounded to f16 once, which is faster and off by what the operator's page states.
enum class NpuActivations : unsigned char { exact, f16 };

namespace npu {

class AnyOperator;  // npu_kernels/backend/any_operator.hpp

// Instantiated in npu_kernels/<op>.cpp: calls visit(context, the operator). `op` has passed its check.
template <class Op> struct Operator {
  static void visit(const Op& op, void* context, void (*visit)(void* context, const AnyOperator& op));
};

}  // namespace npu

}  // namespace inlay
