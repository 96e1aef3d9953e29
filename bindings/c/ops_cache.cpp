#include "bindings/c/row.hpp"

#include <inlay/ops/kv_cache.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow rows[] = {row<CopyBlocks<Host>>, row<ReshapeAndCache<Host>>, row<SwapBlocks<Host>>};

}  // namespace

constinit const Group cache_group = rows;

}  // namespace inlay::c
