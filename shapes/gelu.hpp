// gelu(x), or gelu(x) * up, at some size.
#pragma once

#include <inlay/ops/gelu.hpp>

#include "shapes/tensors.hpp"

namespace inlay {

struct GeluShape {
  index rows = 1024, dim = 14336;
  DType type = DType::f16;
  GeluForm form = GeluForm::erf;
  bool has_up = false, in_place = false;

  void read(auto& from) {
    from.size("rows", rows), from.size("dim", dim), from.type("type", type),
        from.word("form", form, {"erf", "tanh", "quick", "relu_squared", "softcap", "xielu"});
  }
  Gelu<Host> make(Tensors& tensors) const {
    const bool xielu = form == GeluForm::xielu;
    const auto x = tensors.in(type, {rows, dim}, {{-4, 4}});
    return {.x = x,
            .up = has_up ? tensors.in(type, {rows, dim}) : ConstView<2>(),
            .y = in_place ? over(x) : tensors.out(type, {rows, dim}),
            .form = form,
            .cap = form == GeluForm::softcap ? 30.0f : 0,
            .alpha_p = xielu ? 0.8f : 0,
            .alpha_n = xielu ? 1.3f : 0,
            .beta = xielu ? 0.5f : 0,
            .eps = xielu ? -1e-6f : 0};
  }
  CallCost cost() const {
    const double y = bytes_of(type, rows * dim);
    return {.bytes = (2 + has_up + !in_place) * y, .written = y, .flops = 30 * static_cast<double>(rows * dim)};
  }
};

}  // namespace inlay
