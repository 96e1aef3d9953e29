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

constexpr OperatorRow rows[] = {row<Add<Host>>,       row<Embedding<Host>>, row<Gelu<Host>>,
                                row<LayerNorm<Host>>, row<RmsNorm<Host>>,   row<Rope<Host>>,
                                row<RopeTable<Host>>, row<Softmax<Host>>,   row<Swiglu<Host>>};

}  // namespace

constinit const Group rows_group = rows;

}  // namespace inlay::c
