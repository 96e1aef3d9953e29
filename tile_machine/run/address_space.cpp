#include "tile_machine/run/address_space.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace inlay::npu {

namespace {

constexpr std::uint64_t granule = 512;  // blocks start at multiples of it

}  // namespace

std::vector<std::uint64_t> AddressSpace::lay_out(const std::vector<Buffer>& buffers, bool shadowed) {
  std::vector<std::size_t> by_place(buffers.size());
  std::iota(by_place.begin(), by_place.end(), std::size_t{0});
  const std::less<const std::byte*> before;
  std::sort(by_place.begin(), by_place.end(), [&](std::size_t a, std::size_t b) {
    return before(buffers[a].first, buffers[b].first) || (buffers[a].first == buffers[b].first && a < b);
  });

  // Groups of buffers that share bytes, each known by the first that was named.
  struct Group {
    const std::byte *first, *end;
    std::uint64_t bytes;
    std::size_t named;
    std::vector<std::size_t> members;
  };
  std::vector<Group> groups;
  for (const std::size_t i : by_place) {
    const std::byte* end = buffers[i].first == nullptr ? nullptr : buffers[i].first + buffers[i].bytes;
    if (groups.empty() || !before(buffers[i].first, groups.back().end))
      groups.push_back({buffers[i].first, end, buffers[i].bytes, i, {}});
    Group& group = groups.back();
    group.end = std::max(group.end, end, before);
    if (group.end != nullptr) group.bytes = static_cast<std::uint64_t>(group.end - group.first);
    group.named = std::min(group.named, i);
    group.members.push_back(i);
  }
  std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.named < b.named; });

  std::vector<std::uint64_t> addresses(buffers.size());
  blocks_.clear();
  std::uint64_t next = 0;
  for (const Group& group : groups) {
    Block block{next, group.bytes, {}};
    next = (next + block.bytes + granule - 1) / granule * granule;
    bool kept = false;
    for (const std::size_t i : group.members) {
      addresses[i] = block.begin + static_cast<std::uint64_t>(buffers[i].first - group.first);
      kept = kept || buffers[i].use == Use::out || buffers[i].workspace;
    }
    if (kept && shadowed) {
      block.shadow.assign(block.bytes, Byte::host);
      // What is an output here and an input there holds the input.
      for (const bool valid : {false, true})
        for (const std::size_t i : group.members) {
          const bool holds = buffers[i].use != Use::out && !buffers[i].workspace;
          if (holds != valid) continue;
          for (Region region : *buffers[i].elements) {
            region.begin += addresses[i];
            mark(block, region, valid ? Byte::host : Byte::garbage);
          }
        }
    }
    blocks_.push_back(std::move(block));
  }
  return addresses;
}

const AddressSpace::Block* AddressSpace::block_of(std::uint64_t address) const {
  const auto after = std::upper_bound(blocks_.begin(), blocks_.end(), address,
                                      [](std::uint64_t byte, const Block& block) { return byte < block.begin; });
  return after == blocks_.begin() ? nullptr : &*(after - 1);
}

void AddressSpace::mark(Block& block, const Region& region, Byte value) {
  for (std::uint64_t run = 0; run < region.runs; ++run)
    std::fill_n(block.shadow.begin() + static_cast<std::ptrdiff_t>(region.begin + run * region.stride - block.begin),
                region.bytes, value);
}

void AddressSpace::written(const Region& region) {
  auto* block = const_cast<Block*>(block_of(region.begin));
  if (block != nullptr && !block->shadow.empty()) mark(*block, region, Byte::kernel);
}

std::optional<std::uint64_t> AddressSpace::first_of(const Region& region, bool (*wanted)(Byte)) const {
  const Block* block = block_of(region.begin);
  if (block == nullptr || block->shadow.empty()) return std::nullopt;
  for (std::uint64_t run = 0; run < region.runs; ++run) {
    const std::uint64_t begin = region.begin + run * region.stride;
    const auto first = block->shadow.begin() + static_cast<std::ptrdiff_t>(begin - block->begin);
    const auto last = first + static_cast<std::ptrdiff_t>(region.bytes), found = std::find_if(first, last, wanted);
    if (found != last) return begin + static_cast<std::uint64_t>(found - first);
  }
  return std::nullopt;
}

std::optional<std::uint64_t> AddressSpace::unwritten(const Region& region) const {
  return first_of(region, [](Byte byte) { return byte == Byte::garbage; });
}

std::optional<std::uint64_t> AddressSpace::untouched(const Region& region) const {
  return first_of(region, [](Byte byte) { return byte != Byte::kernel; });
}

}  // namespace inlay::npu
