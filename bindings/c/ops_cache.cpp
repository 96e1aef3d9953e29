#include "bindings/c/row.hpp"

#include <inlay/ops/kv_cache.hpp>

namespace inlay::c {

namespace {

constexpr OperatorRow cache_rows[] = {row<CopyBlocks<Host>>, row<ReshapeAndCache<Host>>, row<SwapBlocks<Host>>};

}  // namespace

constinit const Group cache_group = cache_rows;

}  // namespace inlay::c
