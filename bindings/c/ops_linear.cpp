#include "bindings/c/row.hpp"

#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow linear_rows[] = {row<Linear<Host>>, row<LinearInt8<Host>>, row<LinearW4a16<Host>>};

}  // namespace

constinit const Group linear_group = linear_rows;

}  // namespace inlay::c
