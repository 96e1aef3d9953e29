#include "measure/cases/rows.hpp"

#include "tools/kernels/trial.hpp"

namespace inlay::tools {

namespace {

constexpr Tried rows[] = {tried<Add<Host>>,        tried<Swiglu<Host>>,     tried<Gelu<Host>>,
                          tried<LayerNorm<Host>>,  tried<RmsNorm<Host>>,    tried<Softmax<Host>>,
                          tried<RopeTable<Host>>,  tried<Rope<Host>>,       tried<Embedding<Host>>,
                          tried<Quantize<Host>>,   tried<Dequantize<Host>>, tried<MergeStates<Host>>,
                          tried<MoeRouting<Host>>, tried<MoeCombine<Host>>, tried<Sampling<Host>>};

}  // namespace

constinit const std::span<const Tried> tried_rows = rows;

}  // namespace inlay::tools
