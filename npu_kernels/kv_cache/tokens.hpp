// Tokens on their way into one tensor of a paged cache.
//
//   load_vector             vector                                         store
//   ----------------------  ---------------------------------------------  -----------------------------
//   key[t, h, piece]        nothing, where the types are equal             cache[block, h, piece, slot, :]
//                           one cast
//                           int8: peak of |x|, scale = peak / 127,
//                                 codes = round(x / scale)                 scales[block, h, slot]
//
// A tile in scratch has a row for each piece of x elements that lies side by side in the cache (core/paged_kv.hpp):
// a whole head of a flat cache, 16 bytes of vLLM's keys. Rows start at granules, as the transfers want them; where the
// cache has tokens outside of heads (flat) the rows of a token follow one another, so that a token is one run,
//
//   group 0: t0 h0 | t0 h1 | t1 h0 | ..      else      group 0: h0 t0 | h0 t1 | h1 t0 | ..
//
// In vLLM's values (x = 1) a token's elements are block_size apart: its dims are turned into rows, a run of tokens
// lies side by side in each.
#pragma once

#include <optional>
#include <span>

#include "npu_kernels/kv_cache/schedule.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu::kv {

// A tensor of the cache and what is written to it.
struct Pool {
  NdTensor source;  // [tokens, heads, dim]
  NdTensor cache;   // [blocks, heads, groups, slots, x]
  NdTensor scales;  // [blocks, heads, slots], of an int8 cache; else of no rank

  bool quantized() const { return scales.present(); }
  bool turned() const { return cache.extent(4) == 1; }
  bool direct() const { return !turned() && source.first.dtype == cache.first.dtype; }
  bool token_major() const { return !turned() && cache.stride(3) > cache.stride(1); }
  // Of the rows of a tile: pieces of a token's head, and their elements.
  index pieces() const { return turned() ? 1 : cache.extent(2); }
  index piece() const { return turned() ? cache.extent(2) : cache.extent(4); }
};

// How much of it a tile holds.
struct TileSize {
  index tokens = 1, heads = 1, pieces = 1, columns = 1;
  index run = 1;  // tokens that one transfer stores
};
// In `bytes` of the vector memory. tokens: those that a worker may take.
TileSize tile_size(const Device& device, const Pool& pool, index tokens, std::uint64_t bytes);

class TokenWriter {
 public:
  TokenWriter(Core& core, const Pool& pool, const TileSize& size);
  void write(const TokenTile& tile, std::span<const TokenRun> runs);

 private:
  struct Part {  // of the pool, that a tile holds
    index token = 0, tokens = 0, head = 0, heads = 0, piece = 0, pieces = 0, column = 0, columns = 0;
    index rows() const { return tokens * heads; }  // of a piece
  };
  Tensor window(const Tensor& full, const Part& part) const;
  NdTensor arranged(const Tensor& tile, const Part& part) const;  // pieces, then tokens and heads, then columns
  void load(const Part& part);
  void quantize(const Tensor& codes, const Part& part);
  void widen(const Part& part);
  void measure(const Part& part, bool first);
  void finish_scales(const Part& part, std::span<const TokenRun> runs);
  void store(const Tensor& tile, const Part& part, std::span<const TokenRun> runs);
  void turn_and_store(const Tensor& rows, const Part& part, std::span<const TokenRun> runs);
  void write_part(const Part& part, std::span<const TokenRun> runs);
  template <class Visit> void for_parts(Part part, Visit&& visit) const;

  Core& core_;
  Pool pool_;
  TileSize size_;
  std::optional<Ring> in_, out_, scale_;
  Tensor ready_, wide_, other_, peaks_, probes_, spare_, scales_;
};

}  // namespace inlay::npu::kv
