#include "npu_kernels/kv_cache/schedule.hpp"

#include <algorithm>
#include <utility>

namespace inlay::npu::kv {

namespace {

// For each token: is it the last one of its slot?
std::vector<bool> last_of_their_slots(const ConstView<1>& slots, index& live) {
  const index tokens = slots.extents[0];
  std::vector<std::pair<index, index>> named;  // slot, token
  for (index t = 0; t < tokens; ++t)
    if (const index slot = slots.as<std::int64_t>()[t * slots.strides[0]]; slot >= 0) named.emplace_back(slot, t);
  std::sort(named.begin(), named.end());
  std::vector<bool> last(static_cast<std::size_t>(tokens));
  live = 0;
  for (std::size_t i = 0; i < named.size(); ++i)
    if (i + 1 == named.size() || named[i + 1].first != named[i].first) {
      last[static_cast<std::size_t>(named[i].second)] = true;
      ++live;
    }
  return last;
}

}  // namespace

Schedule schedule(const ConstView<1>& slots, index block_size, index tokens, index run) {
  Schedule result;
  const std::vector<bool> last = last_of_their_slots(slots, result.live);
  for (index t = 0; t < slots.extents[0]; ++t) {
    if (!last[static_cast<std::size_t>(t)]) continue;
    const index slot = slots.as<std::int64_t>()[t * slots.strides[0]];
    const index block = slot / block_size, in_block = slot % block_size;
    if (result.tiles.empty() || t >= result.tiles.back().first + tokens)
      result.tiles.push_back({t, 0, result.runs.size(), result.runs.size()});
    TokenTile& tile = result.tiles.back();
    TokenRun* const before = tile.begin < result.runs.size() ? &result.runs.back() : nullptr;
    if (before != nullptr && before->count < run && before->token + before->count == t && before->block == block &&
        before->in_block + before->count == in_block)
      ++before->count;
    else
      result.runs.push_back({t, block, in_block, 1});
    tile.count = t + 1 - tile.first;
    tile.end = result.runs.size();
  }
  return result;
}

}  // namespace inlay::npu::kv
