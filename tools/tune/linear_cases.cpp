// One token and a few by weights of a layer: what decoding asks for.
#include "shapes/linear.hpp"
#include "shapes/linear_int8.hpp"
#include "shapes/linear_w4a16.hpp"
#include "tools/tune/cases.hpp"

namespace inlay::tools {

void add_linear_cases(CaseMaker& make, const ClParameter& parameter) {
  const index n = make.pick(4096, 40), k = make.pick(4096, 1300);
  for (index m : {4, 1}) {
    const auto add = [&](DType weight, const auto& shape) {
      constexpr double of_dot_product = 300;  // ulps of the largest sum
      make.add(std::string(parameter.op) + " " + shape_text(weight, n, k) + " by " + std::to_string(m), of_dot_product,
               shape);
    };
    if (parameter.op == "linear") add(DType::f16, LinearShape{.m = m, .n = n, .k = k, .to = DType::f32});
    if (parameter.op == "linear_int8") add(DType::i8, LinearInt8Shape{.m = m, .n = n, .k = k, .to = DType::f32});
    if (parameter.op == "linear_w4a16")
      add(DType::u4, LinearW4a16Shape{.m = m, .n = n, .k = k, .to = DType::f32, .has_zeros = false});
    if (make.is_small()) return;
  }
}

}  // namespace inlay::tools
