// The weight of one linear layer in whatever form the file gave it: f32 f16 bf16, int8 with a scale
// for each channel, or codes of 4 to 8 bits with a scale for each group. It is packed once; the
// file's pages leave memory as they are read, so that the weight is never held twice.
#pragma once

#include <utility>
#include <variant>
#include <vector>

#include <inlay/model/activations.hpp>
#include <inlay/model/model_file.hpp>
#include <inlay/model/rank_shares.hpp>
#include <inlay/model/tensor.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

namespace inlay::exec {

class LinearWeight {
 public:
  // All three are packed in panels of 16 channels.
  struct Float {
    OwnedTensor<3> packed;
  };
  struct Int8 {
    OwnedTensor<3> packed;
    OwnedTensor<1> sums, scales;
    OwnedTensor<1> x_scale = {};  // static, of x; what is clipped is added in f32. Empty: each token has its own
  };

  using Form = std::variant<Float, Int8, PackedW4>;

  LinearWeight() = default;
  // Of `experts` linears of n channels each, whose panels lie behind each other.
  LinearWeight(index n, Form form, index experts = 1) : n_(n), experts_(experts), form_(std::move(form)) {}

  // y[t,:] = W x[t,:] + bias, emitted as the operator that fits the form. That of several experts lacks expert_ends.
  template <class Run>
  void operator()(Run& run, const ConstView<2>& x, const View<2>& y, Activations activations) const {
    if (const auto* plain = std::get_if<Float>(&form_))
      run(Linear<Host>{
          .x = x,
          .weight = plain->packed,
          .bias = bias,
          .y = y,
          .compute = activations == Activations::bf16 ? LinearCompute::bf16_products : LinearCompute::exact_float});
    else if (const auto* int8 = std::get_if<Int8>(&form_))
      run(LinearInt8<Host>{.x = x,
                           .x_scale = int8->x_scale,
                           .weight = int8->packed,
                           .weight_sum = int8->sums,
                           .weight_scale = int8->scales,
                           .bias = bias,
                           .y = y,
                           .shadow_outliers = int8->x_scale.view().present()});
    else
      run(std::get<PackedW4>(form_).op(
          x, y, bias, activations == Activations::int8 ? W4Compute::int8_activations : W4Compute::exact_float));
  }

  index channels() const { return n_; }  // of each expert
  index experts() const { return experts_; }
  const Form& form() const { return form_; }
  Form& form() { return form_; }
  bool is_float() const { return std::holds_alternative<Float>(form_); }
  // What one token reads, if it has all experts.
  std::size_t bytes() const {
    if (const auto* plain = std::get_if<Float>(&form_)) return plain->packed.bytes();
    if (const auto* int8 = std::get_if<Int8>(&form_))
      return int8->packed.bytes() + int8->sums.bytes() + int8->scales.bytes();
    return static_cast<std::size_t>(std::get<PackedW4>(form_).bytes());
  }

  ConstView<1> bias = {};
  RankShares x_of = {}, y_of = {};  // what x and y are a rank's columns of, where other ranks bring the rest (RankCut)
  bool sums = false;                // but x is the rank's alone, and y its part of a sum

 private:
  index n_ = 0, experts_ = 1;
  Form form_;
};

// `tensor` is [n, k], or [experts, n, k], of any weight type. Its pages in the file are given back.
Expected<LinearWeight> pack_weight(const Parallel& parallel, const ModelFile& file, const WeightTensor& tensor);

}  // namespace inlay::exec
