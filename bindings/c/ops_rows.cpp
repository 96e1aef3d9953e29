#include "bindings/c/row.hpp"

#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/layer_norm.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/softmax.hpp>
#include <inlay/ops/swiglu.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow row_operators[] = {row<Add<Host>>,       row<Embedding<Host>>, row<Gelu<Host>>,
                                         row<LayerNorm<Host>>, row<RmsNorm<Host>>,   row<Rope<Host>>,
                                         row<RopeTable<Host>>, row<Softmax<Host>>,   row<Swiglu<Host>>};

}  // namespace

constinit const Group rows_group = row_operators;

}  // namespace inlay::c
