// The packed weight of linear_w4a16 as an owner of memory, the packer that every import uses, and
// quantize_w4a16, which rounds a float weight itself.
//
//   PackedW4 weight = import_gguf(GgmlType::Q4_0, bytes, n, k).value();
//   run(cpu, weight.op(x, y, bias), workspace);
#pragma once

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/core/element.hpp>
#include <inlay/core/parallel.hpp>
#include <inlay/ops/linear_w4a16.hpp>

namespace inlay {

// Bytes on a cache line's boundary, so that no step of codes of 4 or 8 bits lies in two lines.
class AlignedBytes {
 public:
  AlignedBytes() = default;
  explicit AlignedBytes(std::size_t size) : bytes_(size) {}
  std::byte* data() { return bytes_.data(); }
  const std::byte* data() const { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  bool operator==(const AlignedBytes&) const = default;

 private:
  std::vector<std::byte, CacheLineAllocator<std::byte>> bytes_;
};

namespace detail {

// Of channel c, slot j of a step.
inline int code_of_step(const std::byte* step, index bits, index c, index j) {
  const auto byte = [&](index at) { return static_cast<int>(step[at]); };
  if (bits == 8) return byte(4 * c + j);
  const int lower = byte(4 * c + j / 2) >> 4 * (j % 2) & 15;
  if (bits == 4) return lower;
  const index upper_bits = bits - 4, place = w4_upper_place(bits, j);
  const int upper = byte(4 * w4_panel + c * upper_bits + place / 8) >> place % 8 & ((1 << upper_bits) - 1);
  return upper << 4 | lower;
}
// Puts it where all bits are zero.
inline void put_code(std::byte* step, index bits, index c, index j, int code) {
  const auto put = [&](index at, int part) { step[at] |= static_cast<std::byte>(part); };
  if (bits == 8) return put(4 * c + j, code);
  put(4 * c + j / 2, (code & 15) << 4 * (j % 2));
  const index upper_bits = bits - 4, place = w4_upper_place(bits, j);
  if (upper_bits > 0) put(4 * w4_panel + c * upper_bits + place / 8, code >> 4 << place % 8);
}

}  // namespace detail

struct PackedW4 {
  index n = 0, k = 0;  // channels, inputs
  index slots = 0;     // k without perm
  index group = 0;     // as in LinearW4a16
  index bits = 4;
  DType scale_type = DType::f16;  // of scales and offsets: i8 in units of super-blocks
  DType zero_type = DType::u8;
  AlignedBytes codes = {}, scales = {}, zeros = {}, offsets = {};  // zeros and offsets may be empty
  AlignedBytes super_scales = {}, super_offsets = {};              // f16; may be empty
  std::vector<std::int8_t> codebook = {};                          // of 16, or empty
  std::vector<std::int32_t> perm = {};                             // may be empty

  // What lies panel by panel.
  static constexpr AlignedBytes PackedW4::*by_panel[] = {&PackedW4::codes,        &PackedW4::scales,
                                                         &PackedW4::zeros,        &PackedW4::offsets,
                                                         &PackedW4::super_scales, &PackedW4::super_offsets};

  index groups() const { return w4_groups(slots, group); }
  // All but what lies panel by panel.
  PackedW4 without_panels() const {
    return {.n = n,
            .k = k,
            .slots = slots,
            .group = group,
            .bits = bits,
            .scale_type = scale_type,
            .zero_type = zero_type,
            .codebook = codebook,
            .perm = perm};
  }
  // What a token reads of it.
  std::size_t bytes() const {
    std::size_t sum = codebook.size() + perm.size() * sizeof(std::int32_t);
    for (auto part : by_panel) sum += (this->*part).size();
    return sum;
  }

  LinearW4a16<Host> op(ConstView<2> x, View<2> y, ConstView<1> bias = {},
                       W4Compute compute = W4Compute::exact_float) const {
    LinearW4a16<Host> op{.x = x, .codes = codes_view(), .scales = per_group(scales, scale_type), .y = y};
    if (zeros.size() != 0) op.zeros = per_group(zeros, zero_type);
    if (offsets.size() != 0) op.offsets = per_group(offsets, scale_type);
    if (super_scales.size() != 0) op.super_scales = per_super_block(super_scales);
    if (super_offsets.size() != 0) op.super_offsets = per_super_block(super_offsets);
    if (!codebook.empty()) op.codebook = {codebook.data(), {w4_codebook}};
    if (!perm.empty()) op.perm = {perm.data(), {slots}};
    op.bias = bias;
    op.group = group;
    op.bits = bits;
    op.compute = compute;
    return op;
  }

  ConstView<3> codes_view() const {
    return {codes.data(), DType::u8, {w4_panels(n), w4_steps(slots, bits), w4_step_bytes(bits)}};
  }
  ConstView<3> per_group(const AlignedBytes& memory, DType type) const {
    return {memory.data(), type, {w4_panels(n), groups(), w4_panel}};
  }
  ConstView<3> per_super_block(const AlignedBytes& memory) const {
    return {memory.data(), DType::f16, {w4_panels(n), w4_super_blocks(slots), w4_panel}};
  }

  // The code of one slot of one channel.
  int code(index channel, index slot) const {
    const index of_step = w4_step_slots(bits), j = slot % of_step, c = channel % w4_panel;
    const index step = channel / w4_panel * w4_steps(slots, bits) + slot / of_step;
    return detail::code_of_step(codes.data() + step * w4_step_bytes(bits), bits, c, j);
  }

  // Of one group of one channel. Exact: f32 holds a whole number of 8 bits times a unit of f16.
  float scale(index channel, index g) const { return in_units(scales, super_scales, channel, g); }
  float offset(index channel, index g) const { return in_units(offsets, super_offsets, channel, g); }

  // Channel `channel` of the weight, rounded to f32 once or twice, in the order of x: row[0..k-1].
  void unpack(index channel, float* row) const {
    for (index i = 0; i < k; ++i) row[i] = 0;
    for (index s = 0; s < slots; ++s) {
      const index input = perm.empty() ? s : perm[static_cast<std::size_t>(s)];
      if (input < 0) continue;
      const index g = group == 0 ? 0 : s / group;
      const float step = scale(channel, g);
      const auto q = static_cast<float>(code(channel, s));
      if (!codebook.empty())
        row[input] = static_cast<float>(codebook[static_cast<std::size_t>(code(channel, s))]) * step;
      else if (offsets.size() != 0)
        row[input] = std::fma(q, step, offset(channel, g));
      else if (zeros.size() != 0)
        row[input] = std::fma(
            q, step, -step * static_cast<float>(load_element(zeros.data(), zero_type, place(channel, groups(), g))));
      else
        row[input] = (q - static_cast<float>(1 << (bits - 1))) * step;
    }
  }

 private:
  // A channel's element of a line of its panel, where a panel has `lines`.
  static index place(index channel, index lines, index line) {
    return (channel / w4_panel * lines + line) * w4_panel + channel % w4_panel;
  }
  float in_units(const AlignedBytes& of_groups, const AlignedBytes& units, index channel, index g) const {
    const double value = load_element(of_groups.data(), scale_type, place(channel, groups(), g));
    if (units.size() == 0) return static_cast<float>(value);
    const index unit = place(channel, w4_super_blocks(slots), g * group / w4_super_block);
    return static_cast<float>(value * load_element(units.data(), DType::f16, unit));
  }
};

namespace detail {

inline Status refused(const char* tensor, const std::string& what) {
  return {StatusCode::invalid_argument, std::string(tensor) + " " + what};
}
// Empty, or why there are no such codes, or groups.
inline std::string bad_bits(index bits) {
  return w4_has_bits(bits) ? std::string() : "is " + std::to_string(bits) + "; it must be 4, 5, 6 or 8";
}
inline std::string bad_group(index group) {
  return group >= 0 && group % w4_group_multiple == 0
             ? std::string()
             : "is " + std::to_string(group) + "; it must be a multiple of 8, or 0 for the whole row";
}

// value(channel, line) for every channel and each of `lines` lines of a panel.
template <class Value>
AlignedBytes pack_lines(const PackedW4& weight, index lines, DType type, const Parallel& parallel, Value&& value) {
  AlignedBytes memory(static_cast<std::size_t>(byte_size(type, w4_panels(weight.n) * lines * w4_panel)));
  parallel.ranges(w4_panels(weight.n), 1, [&](index begin, index end) {
    for (index panel = begin; panel < end; ++panel)
      for (index line = 0; line < lines; ++line)
        for (index c = 0; c < w4_panel; ++c) {
          const index channel = panel * w4_panel + c;
          store_element(memory.data(), type, (panel * lines + line) * w4_panel + c,
                        channel < weight.n ? value(channel, line) : 0);
        }
  });
  return memory;
}
// value(channel, group) for every channel and group, into the layout of scales.
template <class Value>
AlignedBytes pack_per_group(const PackedW4& weight, DType type, const Parallel& parallel, Value&& value) {
  return pack_lines(weight, weight.groups(), type, parallel, value);
}

// codes(first, count, out): the codes of `count` <= 16 channels from `first` on, in the order of x,
// out[c * k + i]. Called on several threads at once.
template <class Codes> AlignedBytes pack_codes(const PackedW4& weight, const Parallel& parallel, Codes&& codes) {
  const index of_step = w4_step_slots(weight.bits), step_bytes = w4_step_bytes(weight.bits);
  const index steps = w4_steps(weight.slots, weight.bits);
  AlignedBytes memory(static_cast<std::size_t>(w4_panels(weight.n) * steps * step_bytes));
  parallel.ranges(w4_panels(weight.n), 1, [&](index begin, index end) {
    std::vector<std::uint8_t> rows(static_cast<std::size_t>(w4_panel * weight.k));
    for (index panel = begin; panel < end; ++panel) {
      const index first = panel * w4_panel, count = std::min(w4_panel, weight.n - first);
      codes(first, count, rows.data());
      std::byte* to = memory.data() + panel * steps * step_bytes;
      for (index step = 0; step < steps; ++step, to += step_bytes)
        for (index c = 0; c < count; ++c)
          for (index j = 0; j < of_step && step * of_step + j < weight.slots; ++j) {
            const index slot = step * of_step + j;
            const index input = weight.perm.empty() ? slot : weight.perm[static_cast<std::size_t>(slot)];
            if (input >= 0) put_code(to, weight.bits, c, j, rows[static_cast<std::size_t>(c * weight.k + input)]);
          }
    }
  });
  return memory;
}

inline float as_stored(DType type, double value) { return static_cast<float>(round_to(type, value)); }

}  // namespace detail

// weight [n, k] of floats, rounded to the nearest code. Symmetric: a group's element of largest magnitude
// becomes code 0, which reaches one step further than the last code. Otherwise an integer zero point
// lets the codes span smallest .. largest element (and zero). group as in LinearW4a16. An element or a scale that is
// not finite in its type is refused, and before anything is packed other bits, groups and types.
inline Expected<PackedW4> quantize_w4a16(ConstView<2> weight, index group, index bits = 4, bool symmetric = true,
                                         DType scales = DType::f16, const Parallel& parallel = serial()) {
  if (!floats.contains(weight.dtype))
    return failure(
        detail::refused("weight", "has dtype " + std::string(name(weight.dtype)) + "; it must be one of f32 f16 bf16"));
  if (std::string why = detail::bad_bits(bits); !why.empty()) return failure(detail::refused("bits", why));
  if (std::string why = detail::bad_group(group); !why.empty()) return failure(detail::refused("group", why));
  if (!floats.contains(scales))
    return failure(detail::refused("scales", "is " + std::string(name(scales)) + "; it must be one of f32 f16 bf16"));
  const index n = weight.extents[0], k = weight.extents[1], length = group == 0 ? k : group;
  PackedW4 packed{.n = n, .k = k, .slots = k, .group = group, .bits = bits, .scale_type = scales};
  const float last = static_cast<float>((1 << bits) - 1), middle = static_cast<float>(1 << (bits - 1));
  struct Grid {
    float scale, zero;
  };
  const auto grid = [&](index channel, index g) {
    double low = 0, high = 0;
    for (index i = g * length; i < std::min(k, (g + 1) * length); ++i) {
      low = std::min(low, at(weight, channel, i));
      high = std::max(high, at(weight, channel, i));
    }
    if (symmetric) return Grid{detail::as_stored(scales, (-low > high ? -low : -high) / middle), middle};
    const float scale = detail::as_stored(scales, (high - low) / last);
    return Grid{scale, scale > 0 ? std::nearbyint(static_cast<float>(-low) / scale) : 0};
  };
  packed.scales = detail::pack_per_group(packed, scales, parallel, [&](index c, index g) { return grid(c, g).scale; });
  if (!symmetric)
    packed.zeros =
        detail::pack_per_group(packed, DType::u8, parallel, [&](index c, index g) { return grid(c, g).zero; });
  std::atomic<index> refused = -1;  // a row, if any
  packed.codes = detail::pack_codes(packed, parallel, [&](index first, index count, std::uint8_t* out) {
    for (index c = 0; c < count; ++c)
      for (index g = 0; g < packed.groups(); ++g) {
        const Grid at_group = grid(first + c, g);
        bool finite = std::isfinite(at_group.scale);
        for (index i = g * length; i < std::min(k, (g + 1) * length); ++i) {
          const float value = static_cast<float>(at(weight, first + c, i));
          finite = finite && std::isfinite(value);
          const float code =
              at_group.scale != 0 ? std::nearbyint(value / at_group.scale) + at_group.zero : at_group.zero;
          out[c * k + i] = static_cast<std::uint8_t>(finite ? std::clamp(code, 0.0f, last) : 0);
        }
        if (!finite) refused = first + c;
      }
  });
  if (const index row = refused; row >= 0)
    return failure(StatusCode::invalid_argument, "weight has an element in row " + std::to_string(row) +
                                                     " whose scale in " + std::string(name(scales)) +
                                                     " is not finite; it must be finite and in its range");
  return packed;
}

}  // namespace inlay
