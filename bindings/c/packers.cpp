#include "bindings/c/packers.hpp"

#include <cmath>
#include <optional>

#include <inlay/core/layout.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/quantize.hpp>
#include <inlay/weights/linear_int8_pack.hpp>
#include <inlay/weights/linear_pack.hpp>

#include "bindings/c/row.hpp"
#include "bindings/c/weight.hpp"

namespace inlay::c {

namespace {

DType dtype_of(FloatType type, DType own) {
  switch (type) {
    case FloatType::f32: return DType::f32;
    case FloatType::f16: return DType::f16;
    case FloatType::bf16: return DType::bf16;
    default: return own;
  }
}

// What is wanted of all of them. What is packed takes as much memory as the tensors, which is to be that of real ones:
// rows that lie on one another would be of any number.
template <class Packer> Check<Packer> check_tensors(const Packer& packer) {
  Check<Packer> checked(packer);
  for_each_view(packer, [&](const auto&, const auto& view) {
    if (!view.present()) return;
    checked.that(!view.empty(), view, "has no elements; it must have some")
        .that(!checked.good() || elements_apart(view), view, "has rows that share memory; they must lie apart");
  });
  return checked;
}

Status check(const PackLinear& packer) { return check_tensors(packer).dtype(packer.weight, floats); }
Status check(const PackLinearInt8& packer) {
  return check_tensors(packer).dtype(packer.weight, DTypes{DType::i8, DType::u8});
}
Status check(const QuantizeInt8& packer) { return check_tensors(packer).dtype(packer.weight, floats); }
Status check(const QuantizeW4a16& packer) { return check_tensors(packer).dtype(packer.weight, floats); }
Status check(const ImportGptq& packer) { return check_tensors(packer); }
Status check(const ImportAwq& packer) { return check_tensors(packer); }
Status check(const ImportGguf& packer) {
  const index block = is_quantized(packer.type) ? ggml_format(packer.type).bytes : 1;
  return check_tensors(packer)
      .dtype(packer.rows, DType::u8)
      .contiguous(packer.rows)
      .that(packer.rows.extents[1] % block == 0, packer.rows, [&] {
        return "has rows of " + format_value(packer.rows.extents[1]) + " bytes; they must be a multiple of " +
               format_value(block) + ", the bytes of a block";
      });
}
Status check(const ImportOnnx& packer) { return check_tensors(packer); }

Status pack(const PackLinear& packer, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  const auto [n, k] = packer.weight.extents;
  const DType dtype = dtype_of(packer.dtype, packer.weight.dtype);
  const View<3> packed = weight.make<3>(dtype, linear_packed_extents(n, k, dtype));
  weight.op = "linear", weight.n = n, weight.k = k;
  weight.call.give("weight", ConstView<3>(packed));
  return pack_linear(parallel, packer.weight, packed);
}

Status pack(const PackLinearInt8& packer, const Parallel&, const Computing&, inlay_weight& weight) {
  const auto [n, k] = packer.weight.extents;
  const View<3> packed = weight.make<3>(DType::i8, linear_int8::packed_extents(n, k));
  const View<1> sums = weight.make<1>(DType::i32, {n});
  weight.op = "linear_int8", weight.n = n, weight.k = k;
  weight.call.give("weight", ConstView<3>(packed));
  weight.call.give("weight_sum", ConstView<1>(sums));
  return pack_linear_int8(packer.weight, packed, sums);
}

Status pack(const QuantizeInt8& packer, const Parallel& parallel, const Computing& backend, inlay_weight& weight) {
  const auto [n, k] = packer.weight.extents;
  const View<1> scales = weight.make<1>(DType::f32, {n});
  AlignedBytes memory(static_cast<std::size_t>(n * k));
  const View<2> codes(memory.data(), DType::i8, {n, k});
  const Quantize<Host> round{.x = packer.weight, .y = codes, .row_scale = scales};
  Scratch scratch(nullptr, 0);
  const auto provide = [&](std::size_t needed) { return scratch.take(needed); };
  if (Status status =
          backend.cpu != nullptr ? inlay::run(*backend.cpu, round, provide) : inlay::run(Reference{}, round, provide);
      !status.ok())
    return status;
  for (index row = 0; row < n; ++row)
    if (!std::isfinite(scales.as<float>()[row]))
      return invalid("weight has an element in row " + number(row) + " that is not finite; it must be");
  if (Status status = pack(PackLinearInt8{codes}, parallel, backend, weight); !status.ok()) return status;
  weight.call.give("weight_scale", ConstView<1>(scales));
  return {};
}

Status keep(Expected<PackedW4> packed, inlay_weight& weight) {
  if (!packed) return Status(packed.error().code(), packed.error().message());
  weight.w4 = std::move(*packed);
  weight.op = "linear_w4a16", weight.n = weight.w4.n, weight.k = weight.w4.k;
  const LinearW4a16<Host> op = weight.w4.op({}, {});
  for_each_field(op, [&](const auto& field, const auto& value) {
    using T = std::remove_cvref_t<decltype(value)>;
    if constexpr (ViewLike<T> || std::is_same_v<T, index>) weight.call.give(field.name.data(), value);
  });
  return {};
}

Status pack(const QuantizeW4a16& p, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  return keep(quantize_w4a16(p.weight, p.group, p.bits, p.symmetric, dtype_of(p.scales, p.weight.dtype), parallel),
              weight);
}
Status pack(const ImportGptq& p, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  return keep(import_gptq({.qweight = p.qweight,
                           .qzeros = p.qzeros,
                           .scales = p.scales,
                           .g_idx = p.g_idx,
                           .group = p.group,
                           .bits = p.bits,
                           .v2 = p.v2},
                          parallel),
              weight);
}
Status pack(const ImportAwq& p, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  return keep(import_awq({.qweight = p.qweight, .qzeros = p.qzeros, .scales = p.scales, .group = p.group}, parallel),
              weight);
}
Status pack(const ImportGguf& packer, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  const auto [n, bytes] = packer.rows.extents;
  const GgmlFormat format = ggml_format(packer.type);
  const index k = is_quantized(packer.type) ? bytes / format.bytes * format.block : bytes;
  std::optional<DType> scales;
  if (packer.scales != FloatType::own) scales = dtype_of(packer.scales, DType::f32);
  return keep(import_gguf(packer.type, packer.rows.data, n, k, scales, parallel), weight);
}
Status pack(const ImportOnnx& p, const Parallel& parallel, const Computing&, inlay_weight& weight) {
  return keep(
      import_onnx(
          {.b = p.b, .scales = p.scales, .zero_points = p.zero_points, .k = p.k, .group = p.group, .bits = p.bits},
          parallel),
      weight);
}

template <class Packer> Status read_and_pack(const Computing& backend, Arguments arguments, inlay_weight& weight) {
  Rebound<Packer> bound;
  if (Status status = set_fields(detail::field_rows<Packer>, arguments, &bound); !status.ok()) return status;
  if (Status status = check(bound.op); !status.ok()) return status;
  return pack(bound.op, backend.cpu != nullptr ? backend.cpu->parallel() : serial(), backend, weight);
}

template <class Packer>
inline constexpr PackerRow packer_row{Packer::name.data(), detail::field_rows<Packer>, read_and_pack<Packer>};

constexpr PackerRow packer_rows[] = {packer_row<PackLinear>,    packer_row<PackLinearInt8>, packer_row<QuantizeInt8>,
                                     packer_row<QuantizeW4a16>, packer_row<ImportGptq>,     packer_row<ImportAwq>,
                                     packer_row<ImportGguf>,    packer_row<ImportOnnx>};

}  // namespace

constinit const std::span<const PackerRow> packers = packer_rows;

const PackerRow* find_packer(std::string_view name) {
  for (const PackerRow& row : packers)
    if (row.name == name) return &row;
  return nullptr;
}

}  // namespace inlay::c
