// The cache's operators: lists of the host say what moves where, the device moves it.
//
//   ReshapeAndCache   tiles of tokens over the vector units of all cores; keys, then values (kv_cache/tokens.hpp)
//   CopyBlocks,       pairs of blocks, each of its tensors, in pieces that fit (kv_cache/blocks.hpp)
//   SwapBlocks
#include <inlay/ops/kv_cache.hpp>

#include <algorithm>
#include <memory>

#include "npu_kernels/backend/operator.hpp"
#include "npu_kernels/kv_cache/blocks.hpp"
#include "npu_kernels/kv_cache/tokens.hpp"
#include "tile_machine/arithmetic/rounding.hpp"

namespace inlay::npu {

namespace {

std::uint64_t bytes_of(DType type, index elements) { return static_cast<std::uint64_t>(byte_size(type, elements)); }

// --- tokens ---

struct TokensOfPool {
  kv::Pool pool;
  kv::TileSize size;
};
struct Tokens {
  std::vector<TokensOfPool> pools;  // keys, values
  kv::Schedule schedule;
};

void write_tokens(Core& core, const Tokens& op) {
  std::vector<std::optional<kv::TokenWriter>> writers(op.pools.size());
  const AutoBarrier chain = core.auto_barrier(Pipe::vector);
  for (std::size_t i = 0; i < op.pools.size(); ++i) writers[i].emplace(core, op.pools[i].pool, op.pools[i].size);
  for (auto t = static_cast<std::size_t>(core.vector_worker()); t < op.schedule.tiles.size();
       t += static_cast<std::size_t>(core.vector_workers())) {
    const kv::TokenTile& tile = op.schedule.tiles[t];
    for (auto& writer : writers)
      writer->write(tile, std::span(op.schedule.runs).subspan(tile.begin, tile.end - tile.begin));
  }
}

// --- blocks ---

struct Blocks {
  std::vector<kv::BlockCopy> copies;  // of each tensor
  ConstView<2> pairs;                 // of the host
};

void move_blocks(Core& core, const Blocks& op) {
  index item = 0;
  for (const kv::BlockCopy& copy : op.copies) {
    if (copy.pieces == 0) continue;
    kv::BlockCopier copier(core, copy);
    for (index pair = 0; pair < op.pairs.extents[0]; ++pair)
      for (index piece = 0; piece < copy.pieces; ++piece)
        if (item++ % core.vector_workers() == core.vector_worker()) {
          const std::int64_t* of = op.pairs.as<std::int64_t>() + pair * op.pairs.strides[0];
          copier.move(of[0], of[op.pairs.strides[1]], piece);
        }
  }
}

ConstPagedView<> read_only(const PagedView<>& view) { return {view.data, view.dtype, view.extents, view.strides}; }

Program blocks_program(const GlobalMemory& memory, std::vector<kv::BlockCopy> copies, const ConstView<2>& pairs) {
  index pieces = 0;
  std::uint64_t bytes = 0;
  for (const kv::BlockCopy& copy : copies) {
    pieces += copy.pieces * pairs.extents[0];
    if (copy.pieces > 0)
      bytes += 2 * bytes_of(copy.source.first.dtype,
                            pairs.extents[0] * copy.source.size() / std::max<index>(1, copy.source.extent(0)));
  }
  auto op = std::make_shared<const Blocks>(Blocks{std::move(copies), pairs});
  return {.body = [op](Core& core) { move_blocks(core, *op); },
          .problem = {.bytes = bytes},
          .launch = {.cores = cores_for(pieces, memory.device().vector_units(), memory.cores())}};
}

}  // namespace

Program program(GlobalMemory& memory, const ReshapeAndCache<Host>& op, const Choices&) {
  auto tokens = std::make_shared<Tokens>();
  const auto add = [&](const char* source, const ConstView<3>& from, const char* cache, const PagedView<>& to,
                       const char* scales, const View<3>& scale) {
    const kv::Pool pool{.source = memory.bind(source, from),
                        .cache = memory.bind(cache, to),
                        .scales = memory.bind_optional(scales, scale)};
    tokens->pools.push_back({pool, {}});
  };
  add("k", op.k, "k_cache", op.k_cache, "k_scale", op.k_scale);
  if (op.v_cache.present()) add("v", op.v, "v_cache", op.v_cache, "v_scale", op.v_scale);

  // Every vector unit gets tokens, a few at least.
  const Device& device = memory.device();
  const index count = op.slot_mapping.extents[0];
  const std::uint32_t cores = cores_for(count, index{2} * device.vector_units(), memory.cores());
  index together = ceil_div(std::max<index>(1, count), index{cores} * device.vector_units()), run = together;
  const std::uint64_t bytes = device.memory(Space::vector).bytes * 9 / 10 / tokens->pools.size();
  for (TokensOfPool& each : tokens->pools) {
    each.size = kv::tile_size(device, each.pool, together, bytes);
    together = std::min(together, each.size.tokens);
    run = std::min(run, each.size.run);
  }
  for (TokensOfPool& each : tokens->pools) each.size.tokens = together;
  tokens->schedule = kv::schedule(op.slot_mapping, block_size_of(op.k_cache), together, std::min(run, together));

  std::uint64_t moved = 0;
  for (const TokensOfPool& each : tokens->pools) {
    const index rows = tokens->schedule.live * each.pool.source.extent(1), dim = each.pool.source.extent(2);
    moved += bytes_of(each.pool.source.first.dtype, rows * dim) + bytes_of(each.pool.cache.first.dtype, rows * dim) +
             (each.pool.quantized() ? bytes_of(DType::f32, rows) : 0);
  }
  return {.body = [tokens](Core& core) { write_tokens(core, *tokens); },
          .problem = {.bytes = moved},
          .launch = {.cores = cores}};
}

Program program(GlobalMemory& memory, const CopyBlocks<Host>& op, const Choices&) {
  std::vector<kv::BlockCopy> copies;
  const auto add = [&](const char* name, const PagedView<>& cache) {
    const NdTensor bound = memory.bind(name, cache);
    copies.push_back(kv::block_copy(bound, read_only(cache), bound, read_only(cache), memory.device(),
                                    memory.device().memory(Space::vector).bytes * 9 / 10));
  };
  add("k_cache", op.k_cache);
  if (op.v_cache.present()) add("v_cache", op.v_cache);
  if (op.k_scale.present()) add("k_scale", scales_cache(op.k_scale));
  if (op.v_scale.present()) add("v_scale", scales_cache(op.v_scale));
  return blocks_program(memory, std::move(copies), op.pairs);
}

Program program(GlobalMemory& memory, const SwapBlocks<Host, Host>& op, const Choices&) {
  const NdTensor source = memory.bind("source", op.source), target = memory.bind("target", op.target);
  return blocks_program(memory,
                        {kv::block_copy(source, op.source, target, read_only(op.target), memory.device(),
                                        memory.device().memory(Space::vector).bytes * 9 / 10)},
                        op.pairs);
}

template <> inline constexpr auto lists_read<ReshapeAndCache<Host>> = std::tuple{&ReshapeAndCache<Host>::slot_mapping};
template <> inline constexpr auto lists_read<CopyBlocks<Host>> = std::tuple{&CopyBlocks<Host>::pairs};
template <> inline constexpr auto lists_read<SwapBlocks<Host, Host>> = std::tuple{&SwapBlocks<Host, Host>::pairs};

template struct Operator<ReshapeAndCache<Host>>;
template struct Operator<CopyBlocks<Host>>;
template struct Operator<SwapBlocks<Host, Host>>;

}  // namespace inlay::npu
