#include <inlay/ops/kv_cache.hpp>

#include <cstring>

#include <inlay/core/backend.hpp>
#include <inlay/core/element.hpp>

namespace inlay::reference {

namespace {

// One element from one place to another of the same type: its bits, a NaN's payload included.
void copy_element(const void* from, index i, void* to, index j, DType type) {
  const index bytes = bits(type) / 8;
  std::memcpy(static_cast<char*>(to) + j * bytes, static_cast<const char*>(from) + i * bytes,
              static_cast<std::size_t>(bytes));
}

// max|row| / 127; NaN where the row is not finite.
double int8_scale(const ConstView<3>& source, index t, index h) {
  double largest = 0;
  for (index d = 0; d < source.extents[2]; ++d) {
    const double value = at(source, t, h, d);
    if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
    largest = std::max(largest, std::abs(value));
  }
  return round_to(DType::f32, largest / 127);
}

void write_token(const ConstView<3>& source, const PagedView<>& cache, const View<3>& scales, index t, index slot) {
  for (index h = 0; h < source.extents[1]; ++h) {
    const double scale = scales.present() ? int8_scale(source, t, h) : 1;
    if (scales.present()) put(scales, slot / block_size_of(cache), h, slot % block_size_of(cache), scale);
    for (index d = 0; d < source.extents[2]; ++d) {
      const index place = paged_offset(cache, slot, h, d);
      if (cache.dtype == source.dtype)
        copy_element(source.data, offset(source, t, h, d), cache.data, place, cache.dtype);
      else if (scales.present())
        store_element(cache.data, cache.dtype, place,
                      scale > 0 ? round_to(DType::f32, at(source, t, h, d) / scale) : 0);
      else
        store_element(cache.data, cache.dtype, place, at(source, t, h, d));
    }
  }
}

template <class A, class B> void copy_block(const A& from, const B& to, index source, index target) {
  if (from.empty()) return;  // beside an extent of 0 another may be huge
  for (index h = 0; h < kv_head_count(from); ++h)
    for (index s = 0; s < block_size_of(from); ++s)
      for (index d = 0; d < head_dim_of(from); ++d)
        copy_element(from.data, paged_offset(from, source * block_size_of(from) + s, h, d), to.data,
                     paged_offset(to, target * block_size_of(to) + s, h, d), from.dtype);
}

index entry(const ConstView<2>& pairs, index i, index side) { return static_cast<index>(at(pairs, i, side)); }

}  // namespace

template <> Status compute(const ReshapeAndCache<Host>& op) {
  for (index t = 0; t < op.k.extents[0]; ++t) {
    const index slot = static_cast<index>(at(op.slot_mapping, t));
    if (slot < 0) continue;
    write_token(op.k, op.k_cache, op.k_scale, t, slot);
    if (op.v.present()) write_token(op.v, op.v_cache, op.v_scale, t, slot);
  }
  return {};
}

template <> Status compute(const CopyBlocks<Host>& op) {
  for (index i = 0; i < op.pairs.extents[0]; ++i) {
    const index source = entry(op.pairs, i, 0), target = entry(op.pairs, i, 1);
    copy_block(op.k_cache, op.k_cache, source, target);
    if (op.v_cache.present()) copy_block(op.v_cache, op.v_cache, source, target);
    for (const View<3>& scales : {op.k_scale, op.v_scale})
      if (scales.present()) copy_block(scales_cache(scales), scales_cache(scales), source, target);
  }
  return {};
}

template <> Status compute(const SwapBlocks<Host>& op) {
  for (index i = 0; i < op.pairs.extents[0]; ++i)
    copy_block(op.source, op.target, entry(op.pairs, i, 0), entry(op.pairs, i, 1));
  return {};
}

}  // namespace inlay::reference
