// A paged cache that owns its memory, in each layout that core/paged_kv.hpp draws.
#pragma once

#include <numeric>
#include <string>

#include <inlay/core/paged_kv.hpp>

#include "tests/support/tensor.hpp"

namespace inlay::test {

enum class Pages { flat, head_major, vllm };

inline constexpr Pages all_pages[] = {Pages::flat, Pages::head_major, Pages::vllm};

inline std::string name(Pages pages) {
  return pages == Pages::flat ? "flat" : pages == Pages::head_major ? "head-major" : "vLLM";
}

struct PoolShape {
  index blocks, block_size, heads, dim;
};

class Pool {
 public:
  enum Kind { keys, values };

  Pool() = default;
  Pool(DType type, PoolShape shape, Pages pages, Kind kind, Layout layout = {}) : pages_(pages), kind_(kind) {
    const auto& [blocks, block_size, heads, dim] = shape;
    // vLLM asks for 16 bytes; a dim that they do not divide takes what it can.
    const index x = std::gcd(dim, vllm_key_x(type));
    if (pages == Pages::flat)
      memory = {type, {1, blocks, block_size, heads, dim}, layout};
    else if (pages == Pages::head_major)
      memory = {type, {1, blocks, heads, block_size, dim}, layout};
    else if (kind == keys)
      memory = {type, {blocks, heads, dim / x, block_size, x}, layout};
    else
      memory = {type, {1, blocks, heads, dim, block_size}, layout};
  }

  PagedView<> view() {
    const View<5> all = memory.view();
    if (pages_ == Pages::vllm && kind_ == keys) return all;
    const View<4> pool(all.data, all.dtype, {all.extents[1], all.extents[2], all.extents[3], all.extents[4]},
                       {all.strides[1], all.strides[2], all.strides[3], all.strides[4]});
    return pages_ == Pages::flat         ? flat_cache(pool)
           : pages_ == Pages::head_major ? head_major_cache(pool)
                                         : slot_minor_cache(pool);
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
  Pages pages_ = Pages::flat;
  Kind kind_ = keys;
};

}  // namespace inlay::test
