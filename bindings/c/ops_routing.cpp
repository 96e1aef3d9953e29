#include "bindings/c/row.hpp"

#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/moe_combine.hpp>
#include <inlay/ops/moe_routing.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/ops/sampling.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow routing_rows[] = {row<Dequantize<Host>>, row<MoeCombine<Host>>, row<MoeRouting<Host>>,
                                        row<Quantize<Host>>, row<Sampling<Host>>};

}  // namespace

constinit const Group routing_group = routing_rows;

}  // namespace inlay::c
