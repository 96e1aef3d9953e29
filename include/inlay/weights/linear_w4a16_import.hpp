// Weights of other formats, packed for linear_w4a16. Each import keeps the codes as they are and
// says how its scales are rounded; PackedW4::unpack gives back the numbers that the format means.
//
//   import_gptq      AutoGPTQ's tensors (and GPTQModel's): zero points stored less one (v1) or as they
//                    are (v2), any g_idx
//   import_awq       AutoAWQ's GEMM tensors
//   import_gguf      the block formats of core/ggml_blocks.hpp
//   import_onnx      MatMulNBits of com.microsoft, 4 and 8 bits
//
// They run on the threads of `parallel`, and refuse with a Status that names the tensor.
#pragma once

#include <optional>

#include <inlay/core/quantization.hpp>
#include <inlay/weights/linear_w4a16_pack.hpp>

namespace inlay {

// qweight[i, n]: 32 / bits inputs of channel n in one word, the first in the lowest bits.
struct GptqWeight {
  ConstView<2> qweight;     // [k * bits / 32, n]       i32
  ConstView<2> qzeros;      // [groups, n * bits / 32]  i32: channels n, n+1, .. from the lowest bits on
  ConstView<2> scales;      // [groups, n]              f16 f32 bf16: kept as they are
  ConstView<1> g_idx = {};  // [k]                      i32: the group of each input; optional
  index group = 0;          // group_size of the checkpoint's configuration; 0 (theirs: -1): the whole row
  index bits = 4;
  bool v2 = false;  // checkpoint_format "gptq_v2": zero points are stored as they are
};
inline Expected<PackedW4> import_gptq(const GptqWeight& weight, const Parallel& parallel = serial());
// What it refuses, before anything is packed.
inline Status check(const GptqWeight& weight);

// A word of AWQ holds eight channels of one input; from the lowest nibble on: 0 2 4 6 1 3 5 7.
struct AwqWeight {
  ConstView<2> qweight;  // [k, n / 8]       i32
  ConstView<2> qzeros;   // [groups, n / 8]  i32, in the same order
  ConstView<2> scales;   // [groups, n]      f16 f32 bf16: kept as they are
  index group = 0;
};
inline Expected<PackedW4> import_awq(const AwqWeight& weight, const Parallel& parallel = serial());
inline Status check(const AwqWeight& weight);

// `bytes` holds n rows of k elements, one after the other. Codes keep their bits, those of 2 and 3 take 4; those of
// IQ4_NL, IQ4_XS and MXFP4 name the values of a codebook (MXFP4's are twice FP4's, with half the scale). By default
// scales and minima have the type that holds them exactly: f16 for blocks of 32, bf16 for MXFP4, i8 in units of
// super-blocks for those of 256. f32 holds all of them too, in more bytes; f16 and bf16 round what they do not hold,
// and a scale beyond their range is refused.
inline Expected<PackedW4> import_gguf(GgmlType type, const void* bytes, index n, index k,
                                      std::optional<DType> scales = {}, const Parallel& parallel = serial());

// B of MatMulNBits: blocks of `group` inputs, the even input in the low nibble.
struct OnnxWeight {
  ConstView<3> b;                 // [n, blocks, group * bits / 8]  u8
  ConstView<2> scales;            // [n, blocks]                    f32 f16 bf16: kept as they are
  ConstView<2> zero_points = {};  // [n, (blocks * bits + 7) / 8] u8, low nibble first, or [n, blocks] of a float type
  index k = 0, group = 32, bits = 4;
};
inline Expected<PackedW4> import_onnx(const OnnxWeight& weight, const Parallel& parallel = serial());
inline Status check(const OnnxWeight& weight);

namespace detail {

// Codes of 4 bits or 8, which fill words.
inline std::string bad_word_bits(index bits) {
  return bits == 4 || bits == 8 ? std::string() : "is " + std::to_string(bits) + "; it must be 4 or 8";
}
// Empty, or why `view` is not a tensor of this shape and one of these types.
template <class V> std::string misfit(const V& view, DTypes types, const std::array<index, V::rank>& shape) {
  if (!types.contains(view.dtype)) return "has dtype " + std::string(name(view.dtype));
  if (view.extents != shape)
    return "has shape " + format_shape<V::rank>(view.extents) + "; it must be " + format_shape<V::rank>(shape);
  if (view.data == nullptr && !view.empty()) return "has no memory";
  return {};
}

inline std::uint32_t word(const ConstView<2>& view, index i, index j) {
  return static_cast<std::uint32_t>(view.template as<std::int32_t>()[offset(view, i, j)]);
}

// Integer zero points of every channel and group, unless all of them are the middle code.
template <class Zero> void pack_zeros(PackedW4& weight, const Parallel& parallel, Zero&& zero) {
  const int middle = 1 << (weight.bits - 1);
  int low = middle, high = middle;
  for (index g = 0; g < weight.groups(); ++g)
    for (index c = 0; c < weight.n; ++c) {
      low = std::min(low, static_cast<int>(zero(c, g)));
      high = std::max(high, static_cast<int>(zero(c, g)));
    }
  if (low == middle && high == middle) return;
  weight.zero_type = DType::u8;
  weight.zeros = pack_per_group(weight, weight.zero_type, parallel, zero);
}

// The inputs sorted by group, each group filled up to a common size. Empty: they are in order.
inline std::vector<std::int32_t> sorted_by_group(const std::int32_t* g_idx, index k, index groups, index& group) {
  std::vector<index> count(static_cast<std::size_t>(groups));
  bool in_order = true;
  for (index i = 0; i < k; ++i) {
    ++count[static_cast<std::size_t>(g_idx[i])];
    in_order = in_order && g_idx[i] == (group == 0 ? 0 : i / group);
  }
  if (in_order) return {};
  const index largest = *std::max_element(count.begin(), count.end());
  group = (largest + w4_group_multiple - 1) / w4_group_multiple * w4_group_multiple;
  std::vector<std::int32_t> perm(static_cast<std::size_t>(groups * group), -1);
  std::vector<index> next(static_cast<std::size_t>(groups));
  for (index i = 0; i < k; ++i) {
    const index g = g_idx[i];
    perm[static_cast<std::size_t>(g * group + next[static_cast<std::size_t>(g)]++)] = static_cast<std::int32_t>(i);
  }
  // There is an input. The last group may be short, and empty ones at the end are left out: groups follow from slots.
  while (perm.back() < 0) perm.pop_back();
  return perm;
}

// Scales and minima of super-blocks as they are: whole numbers of d and dmin.
template <class Block, class BlockAt> void pack_units(PackedW4& weight, BlockAt&& block_at, const Parallel& parallel) {
  const auto counts = [&](auto&& count) {
    return pack_per_group(weight, DType::i8, parallel, [&](index channel, index g) {
      return count(block_at(channel, g / Block::groups), g % Block::groups);
    });
  };
  const auto units = [&](auto&& unit) {
    return pack_lines(weight, weight.k / Block::size, DType::f16, parallel,
                      [&](index channel, index i) { return unit(block_at(channel, i)); });
  };
  weight.scales = counts([](const Block& block, index g) { return ggml::scale_in_units(block, g); });
  weight.super_scales = units([](const Block& block) { return static_cast<float>(block.d); });
  if constexpr (Block::has_minima) {
    weight.offsets = counts([](const Block& block, index g) { return ggml::minimum_in_units(block, g); });
    weight.super_offsets = units([](const Block& block) { return -static_cast<float>(block.dmin); });
  }
}

template <class Block> Status pack_blocks(PackedW4& weight, const std::byte* bytes, const Parallel& parallel) {
  const index row_bytes = weight.k / Block::size * static_cast<index>(sizeof(Block));
  const auto block_at = [=](index channel, index i) {
    Block block;
    std::memcpy(&block, bytes + channel * row_bytes + i * static_cast<index>(sizeof(Block)), sizeof(Block));
    return block;
  };
  constexpr const std::int8_t* codebook = ggml::codebook<Block>;
  if (codebook != nullptr) weight.codebook.assign(codebook, codebook + w4_codebook);
  // Without minima zero moves to the middle code, and the weight is symmetric.
  const int shift = Block::has_minima || codebook != nullptr ? 0 : (1 << (weight.bits - 1)) - Block::zero;
  weight.group = Block::group;
  weight.codes = pack_codes(weight, parallel, [&](index first, index count, std::uint8_t* out) {
    for (index c = 0; c < count; ++c)
      for (index i = 0; i < weight.k; i += Block::size) {
        const Block block = block_at(first + c, i / Block::size);
        std::int8_t room[Block::size];
        const std::int8_t* const q = ggml::codes(block, room);
        for (index e = 0; e < Block::size; ++e) out[c * weight.k + i + e] = static_cast<std::uint8_t>(q[e] + shift);
      }
  });
  if constexpr (ggml::has_units<Block>)
    if (weight.scale_type == DType::i8) {
      pack_units<Block>(weight, block_at, parallel);
      return {};
    }
  std::atomic<index> beyond = -1;  // a row with a scale that its type does not hold, if any
  const auto held = [&](index channel, double value) {
    if (std::isfinite(value) && !std::isfinite(as_stored(weight.scale_type, value))) beyond = channel;
    return value;
  };
  weight.scales = pack_per_group(weight, weight.scale_type, parallel, [&](index channel, index g) {
    return held(channel, ggml::scale(block_at(channel, g / Block::groups), g % Block::groups));
  });
  if constexpr (Block::has_minima)
    weight.offsets = pack_per_group(weight, weight.scale_type, parallel, [&](index channel, index g) {
      return held(channel, -ggml::minimum(block_at(channel, g / Block::groups), g % Block::groups));
    });
  const index row = beyond;
  return row < 0 ? Status()
                 : refused("scales", "are " + std::string(name(weight.scale_type)) +
                                         ", which does not hold one of row " + std::to_string(row) + "; it must be " +
                                         std::string(name(ggml::has_units<Block> ? DType::f32 : Block::scale_type)));
}

}  // namespace detail

inline Status check(const GptqWeight& from) {
  if (std::string why = detail::bad_word_bits(from.bits); !why.empty()) return detail::refused("bits", why);
  if (std::string why = detail::bad_group(from.group); !why.empty()) return detail::refused("group", why);
  const index per_word = 32 / from.bits, k = from.qweight.extents[0] * per_word, n = from.qweight.extents[1];
  const index groups = w4_groups(k, from.group);
  if (std::string why = detail::misfit(from.qweight, DType::i32, from.qweight.extents); !why.empty())
    return detail::refused("qweight", why);
  if (std::string why = detail::misfit(from.qzeros, DType::i32, {groups, (n + per_word - 1) / per_word}); !why.empty())
    return detail::refused("qzeros", why);
  if (std::string why = detail::misfit(from.scales, floats, {groups, n}); !why.empty())
    return detail::refused("scales", why);
  if (!from.g_idx.present()) return {};
  if (std::string why = detail::misfit(from.g_idx, DType::i32, {k}); !why.empty()) return detail::refused("g_idx", why);
  const auto* g_idx = from.g_idx.as<std::int32_t>();
  for (index i = 0; i < k; ++i)
    if (g_idx[i] < 0 || g_idx[i] >= groups)
      return detail::refused("g_idx", "holds " + std::to_string(g_idx[i]) + " at " + std::to_string(i) +
                                          "; it must be in 0.." + std::to_string(groups - 1));
  return {};
}

inline Expected<PackedW4> import_gptq(const GptqWeight& from, const Parallel& parallel) {
  if (Status status = check(from); !status) return failure(std::move(status));
  const index per_word = 32 / from.bits, k = from.qweight.extents[0] * per_word, n = from.qweight.extents[1];
  PackedW4 weight{.n = n, .k = k, .slots = k, .group = from.group, .bits = from.bits, .scale_type = from.scales.dtype};
  if (from.g_idx.present()) {
    weight.perm = detail::sorted_by_group(from.g_idx.as<std::int32_t>(), k, w4_groups(k, from.group), weight.group);
    if (!weight.perm.empty()) weight.slots = static_cast<index>(weight.perm.size());
  }
  const std::uint32_t mask = (1u << from.bits) - 1;
  weight.codes = detail::pack_codes(weight, parallel, [&](index first, index count, std::uint8_t* out) {
    for (index i = 0; i < k; ++i)
      for (index c = 0; c < count; ++c)
        out[c * k + i] = static_cast<std::uint8_t>(
            detail::word(from.qweight, i / per_word, first + c) >> (i % per_word * from.bits) & mask);
  });
  weight.scales = detail::pack_per_group(weight, weight.scale_type, parallel,
                                         [&](index c, index g) { return at(from.scales, g, c); });
  // v1's writers take one from each code of a whole word, and a zero point of 0 borrows from its neighbour above.
  const std::uint32_t ones = from.v2 ? 0 : from.bits == 4 ? 0x11111111u : 0x01010101u;
  detail::pack_zeros(weight, parallel, [&](index c, index g) {
    return (detail::word(from.qzeros, g, c / per_word) + ones) >> (c % per_word * from.bits) & mask;
  });
  return weight;
}

inline Status check(const AwqWeight& from) {
  if (std::string why = detail::bad_group(from.group); !why.empty()) return detail::refused("group", why);
  const index k = from.qweight.extents[0], n = from.scales.extents[1], groups = w4_groups(k, from.group);
  if (n % 8 != 0)
    return detail::refused("scales", "has " + std::to_string(n) + " channels; it must have a multiple of 8");
  if (std::string why = detail::misfit(from.qweight, DType::i32, {k, n / 8}); !why.empty())
    return detail::refused("qweight", why);
  if (std::string why = detail::misfit(from.qzeros, DType::i32, {groups, n / 8}); !why.empty())
    return detail::refused("qzeros", why);
  if (std::string why = detail::misfit(from.scales, floats, {groups, n}); !why.empty())
    return detail::refused("scales", why);
  return {};
}

inline Expected<PackedW4> import_awq(const AwqWeight& from, const Parallel& parallel) {
  if (Status status = check(from); !status) return failure(std::move(status));
  const index k = from.qweight.extents[0], n = from.scales.extents[1];
  PackedW4 weight{.n = n, .k = k, .slots = k, .group = from.group, .scale_type = from.scales.dtype};
  // Channel c of eight lies in nibble c/2 where c is even, and in 4 + c/2 where it is odd.
  const auto code = [](const ConstView<2>& words, index i, index channel) {
    const index c = channel % 8;
    return detail::word(words, i, channel / 8) >> (4 * (c / 2 + c % 2 * 4)) & 15;
  };
  weight.codes = detail::pack_codes(weight, parallel, [&](index first, index count, std::uint8_t* out) {
    for (index i = 0; i < k; ++i)
      for (index c = 0; c < count; ++c) out[c * k + i] = static_cast<std::uint8_t>(code(from.qweight, i, first + c));
  });
  weight.scales = detail::pack_per_group(weight, weight.scale_type, parallel,
                                         [&](index c, index g) { return at(from.scales, g, c); });
  detail::pack_zeros(weight, parallel, [&](index c, index g) { return code(from.qzeros, g, c); });
  return weight;
}

inline Expected<PackedW4> import_gguf(GgmlType type, const void* bytes, index n, index k, std::optional<DType> scales,
                                      const Parallel& parallel) {
  if (scales && !floats.contains(*scales))
    return failure(
        detail::refused("scales", "are asked for as " + std::string(name(*scales)) + "; it must be f32, f16 or bf16"));
  if (!is_quantized(type))
    return failure(detail::refused(
        "type", "is " + std::to_string(static_cast<unsigned>(type)) + "; it must be one of a block format"));
  if (k < 0 || k % ggml_format(type).block != 0)
    return failure(detail::refused(
        "k", "is " + std::to_string(k) + "; it must be a multiple of " + std::to_string(ggml_format(type).block)));
  PackedW4 weight{.n = n, .k = k, .slots = k};
  Status status;
  with_block(type, [&]<class Block>(std::type_identity<Block>) {
    weight.bits = std::max(Block::bits, 4);
    weight.scale_type = scales.value_or(Block::scale_type);
    status = detail::pack_blocks<Block>(weight, static_cast<const std::byte*>(bytes), parallel);
  });
  if (!status) return failure(std::move(status));
  return weight;
}

inline Status check(const OnnxWeight& from) {
  if (std::string why = detail::bad_word_bits(from.bits); !why.empty()) return detail::refused("bits", why);
  if (from.group == 0 || !detail::bad_group(from.group).empty())
    return detail::refused("group", "is " + std::to_string(from.group) + "; it must be a positive multiple of 8");
  if (from.k < 1) return detail::refused("k", "is " + std::to_string(from.k) + "; it must be at least 1");
  const index n = from.b.extents[0], blocks = w4_groups(from.k, from.group);
  if (std::string why = detail::misfit(from.b, DType::u8, {n, blocks, from.group / 8 * from.bits}); !why.empty())
    return detail::refused("b", why);
  if (std::string why = detail::misfit(from.scales, floats, {n, blocks}); !why.empty())
    return detail::refused("scales", why);
  if (!from.zero_points.present()) return {};
  std::string why = from.zero_points.dtype == DType::u8
                        ? detail::misfit(from.zero_points, DType::u8, {n, groups_of(blocks, 8 / from.bits)})
                        : detail::misfit(from.zero_points, floats, {n, blocks});
  return why.empty() ? Status() : detail::refused("zero_points", why);
}

inline Expected<PackedW4> import_onnx(const OnnxWeight& from, const Parallel& parallel) {
  if (Status status = check(from); !status) return failure(std::move(status));
  PackedW4 weight{.n = from.b.extents[0],
                  .k = from.k,
                  .slots = from.k,
                  .group = from.group,
                  .bits = from.bits,
                  .scale_type = from.scales.dtype};
  const auto code = [&](const std::uint8_t* row, index i) {
    return static_cast<std::uint8_t>(from.bits == 8 ? row[i] : i % 2 ? row[i / 2] >> 4 : row[i / 2] & 15);
  };
  weight.codes = detail::pack_codes(weight, parallel, [&](index first, index count, std::uint8_t* out) {
    for (index c = 0; c < count; ++c)
      for (index i = 0; i < from.k; ++i)
        out[c * from.k + i] =
            code(from.b.as<std::uint8_t>() + offset(from.b, first + c, i / from.group, 0), i % from.group);
  });
  weight.scales = detail::pack_per_group(weight, weight.scale_type, parallel,
                                         [&](index c, index g) { return at(from.scales, c, g); });
  if (from.zero_points.present() && from.zero_points.dtype == DType::u8) {
    detail::pack_zeros(weight, parallel, [&](index c, index g) {
      return code(from.zero_points.as<std::uint8_t>() + offset(from.zero_points, c, 0), g);
    });
  } else if (from.zero_points.present()) {
    weight.zero_type = from.zero_points.dtype;
    weight.zeros = detail::pack_per_group(weight, weight.zero_type, parallel,
                                          [&](index c, index g) { return at(from.zero_points, c, g); });
  }
  return weight;
}

}  // namespace inlay
