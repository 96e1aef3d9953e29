// The limit is memory: operands are rotated through 256 MiB. 9216: the feed-forward of Gemma-2-2B.
#include "shapes/gelu.hpp"
#include "bench/support/measure.hpp"
#include "shapes/gelu.hpp"

namespace inlay::bench {
namespace {

void gelu(benchmark::State& state, const GeluShape& shape) {
  const auto row = [](Gelu<Host> op, index r) {
    keep_row(r, op.x, op.up, op.y);
    return op;
  };
  measure(state, shape, {.rows = shape.rows, .row = row, .ulps = 20, .in_place = true});
}

}  // namespace

void add_all() {
  constexpr std::string_view forms[] = {"erf", "tanh", "quick", "relu_squared", "softcap", "xielu"};
  for (GeluForm form :
       {GeluForm::erf, GeluForm::tanh, GeluForm::quick, GeluForm::relu_squared, GeluForm::softcap, GeluForm::xielu})
    for (DType type : {DType::f32, DType::bf16})
      add("gelu/" + std::string(forms[static_cast<int>(form)]) + "/" + std::string(name(type)) + "/512x9216",
          [=](benchmark::State& state) {
            gelu(state, {.rows = 512, .dim = 9216, .type = type, .form = form, .has_up = true, .in_place = true});
          });
}

}  // namespace inlay::bench
