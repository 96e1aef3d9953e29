// A paged cache that owns its memory, in each layout that core/paged_kv.hpp draws.
#pragma once

#include <numeric>
#include <string>

#include <inlay/core/paged_kv.hpp>

#include "tests/support/tensor.hpp"

namespace inlay::test {

// pieces: as vLLM's keys, values too, with any x.
enum class Pages { flat, head_major, vllm, pieces };

inline constexpr Pages all_pages[] = {Pages::flat, Pages::head_major, Pages::vllm, Pages::pieces};

inline std::string name(Pages pages) {
  return pages == Pages::flat         ? "flat"
         : pages == Pages::head_major ? "head-major"
         : pages == Pages::vllm       ? "vLLM"
                                      : "pieces";
}

struct PoolShape {
  index blocks, block_size, heads, dim;
  index x = 0;  // elements of a piece; 0: 16 bytes, as vLLM's
  index spare =
      0;  // elements that lie between what the view shows, in each dimension: no stride is a product of extents
};

class Pool {
 public:
  enum Kind { keys, values };

  Pool() = default;
  Pool(DType type, PoolShape shape, Pages pages, Kind kind, Layout layout = {})
      : slot_minor_(pages == Pages::vllm && kind == values),
        pieces_(pages == Pages::pieces || (pages == Pages::vllm && kind == keys)),
        flat_(pages == Pages::flat) {
    const auto& [blocks, block_size, heads, dim, asked, spare] = shape;
    // A dim that 16 bytes do not divide takes what it can.
    const index x = asked > 0 ? asked : std::gcd(dim, vllm_key_x(type));
    if (pieces_)
      shown_ = {blocks, heads, dim / x, block_size, x};
    else if (slot_minor_)
      shown_ = {1, blocks, heads, dim, block_size};
    else if (flat_)
      shown_ = {1, blocks, block_size, heads, dim};
    else
      shown_ = {1, blocks, heads, block_size, dim};
    std::array<index, 5> all = shown_;
    for (int d = 1; d < 5; ++d) all[d] += spare;
    memory = {type, all, layout};
  }

  PagedView<> view() {
    View<5> all = memory.view();
    all.extents = shown_;
    if (pieces_) return all;
    const View<4> pool(all.data, all.dtype, {all.extents[1], all.extents[2], all.extents[3], all.extents[4]},
                       {all.strides[1], all.strides[2], all.strides[3], all.strides[4]});
    return flat_ ? flat_cache(pool) : slot_minor_ ? slot_minor_cache(pool) : head_major_cache(pool);
  }
  operator PagedView<>() { return view(); }
  operator ConstPagedView<>() { return view(); }

  double get(index slot, index head, index d) {
    const PagedView<> cache = view();
    return load_element(cache.data, cache.dtype, paged_offset(cache, slot, head, d));
  }
  void set(index slot, index head, index d, double value) {
    const PagedView<> cache = view();
    store_element(cache.data, cache.dtype, paged_offset(cache, slot, head, d), value);
  }

  Tensor<5> memory;

 private:
  bool slot_minor_ = false, pieces_ = false, flat_ = false;
  std::array<index, 5> shown_{};
};

}  // namespace inlay::test
