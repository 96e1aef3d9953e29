// What packs weights, as C names it: structs with fields, as operators have, so that their arguments are listed, read
// and refused in the same way. Each fills in a weight (weight.hpp), which is what a linear takes besides x and y.
#pragma once

#include <span>

#include <inlay/core/check.hpp>
#include <inlay/core/quantization.hpp>
#include <inlay/weights/linear_w4a16_import.hpp>

#include "bindings/c/arguments.hpp"
#include "bindings/c/backend.hpp"
#include "bindings/c/words.hpp"

namespace inlay::c {

// Rows of floats for linear; `dtype` is that of the packed form.
struct PackLinear {
  ConstView<2> weight;  // [n, k]  f32 f16 bf16
  FloatType dtype = FloatType::own;

  static constexpr std::string_view name = "pack_linear";
  static constexpr auto fields = FieldList{in("weight", &PackLinear::weight), scalar("dtype", &PackLinear::dtype)};
};

// Codes for linear_int8; of u8 the zero point is 128 less in the packed form.
struct PackLinearInt8 {
  ConstView<2> weight;  // [n, k]  i8 u8

  static constexpr std::string_view name = "pack_linear_int8";
  static constexpr auto fields = FieldList{in("weight", &PackLinearInt8::weight)};
};

// Floats for linear_int8, rounded: a scale s = max|w| / 127 for each channel.
struct QuantizeInt8 {
  ConstView<2> weight;  // [n, k]  f32 f16 bf16

  static constexpr std::string_view name = "quantize_int8";
  static constexpr auto fields = FieldList{in("weight", &QuantizeInt8::weight)};
};

// Floats for linear_w4a16, rounded (linear_w4a16_pack.hpp).
struct QuantizeW4a16 {
  ConstView<2> weight;  // [n, k]  f32 f16 bf16
  index group = 0;      // inputs that share a scale: a multiple of 8, or 0 for the whole row
  index bits = 4;       // 4 or 8
  bool symmetric = true;
  FloatType scales = FloatType::f16;  // own: the weight's

  static constexpr std::string_view name = "quantize_w4a16";
  static constexpr auto fields =
      FieldList{in("weight", &QuantizeW4a16::weight), scalar("group", &QuantizeW4a16::group),
                scalar("bits", &QuantizeW4a16::bits), scalar("symmetric", &QuantizeW4a16::symmetric),
                scalar("scales", &QuantizeW4a16::scales)};
};

// Tensors of checkpoints for linear_w4a16, codes as they are (linear_w4a16_import.hpp).
struct ImportGptq {
  ConstView<2> qweight;     // [k * bits / 32, n]       i32
  ConstView<2> qzeros;      // [groups, n * bits / 32]  i32
  ConstView<2> scales;      // [groups, n]              f32 f16 bf16
  ConstView<1> g_idx = {};  // [k]                      i32: the group of each input; optional
  index group = 0;          // group_size of the checkpoint; 0 (theirs: -1): the whole row
  index bits = 4;           // 4 or 8
  bool v2 = false;          // zero points are stored as they are, not less one

  static constexpr std::string_view name = "import_gptq";
  static constexpr auto fields =
      FieldList{in("qweight", &ImportGptq::qweight), in("qzeros", &ImportGptq::qzeros),
                in("scales", &ImportGptq::scales),   optional_in("g_idx", &ImportGptq::g_idx),
                scalar("group", &ImportGptq::group), scalar("bits", &ImportGptq::bits),
                scalar("v2", &ImportGptq::v2)};
};

struct ImportAwq {
  ConstView<2> qweight;  // [k, n / 8]       i32
  ConstView<2> qzeros;   // [groups, n / 8]  i32
  ConstView<2> scales;   // [groups, n]      f32 f16 bf16
  index group = 0;

  static constexpr std::string_view name = "import_awq";
  static constexpr auto fields = FieldList{in("qweight", &ImportAwq::qweight), in("qzeros", &ImportAwq::qzeros),
                                           in("scales", &ImportAwq::scales), scalar("group", &ImportAwq::group)};
};

// Rows of a GGUF tensor, as they lie in the file.
struct ImportGguf {
  ConstView<2> rows;  // [n, bytes of a row]  u8, contiguous
  GgmlType type = GgmlType::Q4_0;
  FloatType scales = FloatType::own;  // own: the type that holds them exactly

  static constexpr std::string_view name = "import_gguf";
  static constexpr auto fields = FieldList{in("rows", &ImportGguf::rows), scalar("type", &ImportGguf::type),
                                           scalar("scales", &ImportGguf::scales)};
};

// B of com.microsoft's MatMulNBits.
struct ImportOnnx {
  ConstView<3> b;                 // [n, blocks, group * bits / 8]  u8
  ConstView<2> scales;            // [n, blocks]                    f32 f16 bf16
  ConstView<2> zero_points = {};  // [n, (blocks * bits + 7) / 8] u8, or [n, blocks] of floats; optional
  index k = 0;
  index group = 32;
  index bits = 4;

  static constexpr std::string_view name = "import_onnx";
  static constexpr auto fields = FieldList{in("b", &ImportOnnx::b),
                                           in("scales", &ImportOnnx::scales),
                                           optional_in("zero_points", &ImportOnnx::zero_points),
                                           scalar("k", &ImportOnnx::k),
                                           scalar("group", &ImportOnnx::group),
                                           scalar("bits", &ImportOnnx::bits)};
};

struct PackerRow {
  const char* name;
  std::span<const FieldRow> fields;
  Status (*pack)(const Computing& backend, Arguments arguments, inlay_weight& weight);
};

extern const std::span<const PackerRow> packers;

// The one of this name, or null.
const PackerRow* find_packer(std::string_view name);

}  // namespace inlay::c
