// The calls that parameters are tried on: shapes of models; for tests small ones, with rests behind whole vectors and
// pieces, and one where several would differ in a program's types alone: PoCL takes a second to build one.
#pragma once

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/cl_tuning.hpp>

#include "tools/tune/case.hpp"

namespace inlay::tools {

enum class Size { typical, small };
using Cases = std::vector<std::unique_ptr<Case>>;

// Cases one by one; after a failure none.
class CaseMaker {
 public:
  CaseMaker(Cl& cl, Size size) : cl_(cl), size_(size) {}

  bool is_small() const { return size_ == Size::small; }
  // An extent of a model, or what stands for it in a test.
  index pick(index typical, index small) const { return size_ == Size::typical ? typical : small; }
  template <class Shape> void add(std::string what, double ulps, const Shape& shape) {
    if (!status_.ok()) return;
    auto made = Case::make(cl_, std::move(what), ulps, shape);
    if (made)
      cases_.push_back(std::move(*made));
    else
      status_ = std::move(made.error());
  }
  Expected<Cases> result() {
    if (!status_.ok()) return failure(std::move(status_));
    return std::move(cases_);
  }

 private:
  Cl& cl_;
  Size size_;
  Cases cases_;
  Status status_;
};

// "f16 [64, 4096]"
template <class... Extents> std::string shape_text(DType dtype, Extents... extents) {
  std::string text;
  ((text += (text.empty() ? "" : ", ") + std::to_string(extents)), ...);
  return std::string(name(dtype)) + " [" + text + "]";
}

void add_row_cases(CaseMaker& make, const ClParameter& parameter);
void add_cache_cases(CaseMaker& make, const ClParameter& parameter);
void add_linear_cases(CaseMaker& make, const ClParameter& parameter);
void add_attention_cases(CaseMaker& make, const ClParameter& parameter);

// The calls that `parameter` matters to.
inline Expected<Cases> cases_of(Cl& cl, const ClParameter& parameter, Size size) {
  CaseMaker make(cl, size);
  add_row_cases(make, parameter);
  add_cache_cases(make, parameter);
  add_linear_cases(make, parameter);
  add_attention_cases(make, parameter);
  auto cases = make.result();
  if (cases && cases->empty()) return failure(StatusCode::internal, "no call is made for " + std::string(parameter.op));
  return cases;
}

}  // namespace inlay::tools
