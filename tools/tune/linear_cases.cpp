// One token and a few by weights of a layer: what decoding asks for.
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "tools/tune/cases.hpp"

namespace inlay::tools {

namespace {

// Ulps of the largest sum.
constexpr double of_dot_product = 300;

template <class Op> std::string title(DType weight, index rows, index n, index k) {
  return std::string(Op::name) + " " + shape_text(weight, n, k) + " by " + std::to_string(rows);
}

void linear_cases(CaseMaker& make, index rows, index n, index k) {
  make.add(title<Linear<Host>>(DType::f16, rows, n, k), of_dot_product, [=](Operands& o) {
    const View<2> weight = o.random<2>(DType::f16, {n, k});
    const View<3> packed = o.bytes<3>(weight.dtype, linear_packed_extents(n, k, weight.dtype));
    // Without weights after a failure, which the operator's check then tells of.
    const bool packs = pack_linear(serial(), weight, packed).ok();
    return Linear<Host>{.x = o.random<2>(DType::f16, {rows, k}),
                        .weight = packs ? packed : View<3>(),
                        .y = o.output<2>(DType::f32, {rows, n})};
  });
}

void int8_cases(CaseMaker& make, index rows, index n, index k) {
  make.add(title<LinearInt8<Host>>(DType::i8, rows, n, k), of_dot_product, [=](Operands& o) {
    const View<2> weight = o.integers<2>(DType::i8, {n, k}, -127, 127);
    const View<3> packed = o.bytes<3>(DType::i8, linear_int8::packed_extents(n, k));
    const View<1> sums = o.bytes<1>(DType::i32, {n});
    const bool packs = pack_linear_int8(weight, packed, sums).ok();
    return LinearInt8<Host>{.x = o.random<2>(DType::f16, {rows, k}),
                            .weight = packs ? packed : View<3>(),
                            .weight_sum = sums,
                            .weight_scale = o.random<1>(DType::f32, {n}, 0.01, 0.02),
                            .y = o.output<2>(DType::f32, {rows, n})};
  });
}

void w4_cases(CaseMaker& make, index rows, index n, index k) {
  constexpr index group = 128;
  const std::array<index, 3> per_group = {w4_panels(n), w4_groups(k, group), w4_panel};
  make.add(title<LinearW4a16<Host>>(DType::u4, rows, n, k), of_dot_product, [=](Operands& o) {
    return LinearW4a16<Host>{.x = o.random<2>(DType::f16, {rows, k}),
                             .codes = o.integers<3>(DType::u8, {w4_panels(n), w4_steps(k, 4), 4 * w4_panel}, 0, 255),
                             .scales = o.random<3>(DType::f16, per_group, 0.01, 0.02),
                             .y = o.output<2>(DType::f32, {rows, n}),
                             .group = group};
  });
}

}  // namespace

void add_linear_cases(CaseMaker& make, const ClParameter& parameter) {
  const index n = make.pick(4096, 40), k = make.pick(4096, 1300);
  for (index rows : {4, 1}) {
    if (parameter.op == "linear") linear_cases(make, rows, n, k);
    if (parameter.op == "linear_int8") int8_cases(make, rows, n, k);
    if (parameter.op == "linear_w4a16") w4_cases(make, rows, n, k);
    if (make.is_small()) return;
  }
}

}  // namespace inlay::tools
