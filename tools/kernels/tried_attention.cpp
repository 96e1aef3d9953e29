#include "measure/cases/attention.hpp"

#include "tools/kernels/trial.hpp"

namespace inlay::tools {

namespace {

constexpr Tried attention[] = {tried<FlashAttention<Host>>, tried<IncreFlashAttention<Host>>,
                               tried<PagedAttention<Host>>, tried<ReshapeAndCache<Host>>,
                               tried<CopyBlocks<Host>>,     tried<SwapBlocks<Host>>};

}  // namespace

constinit const std::span<const Tried> tried_attention = attention;

}  // namespace inlay::tools
