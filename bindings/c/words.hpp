// The words that stand for the values of enums in C. They are part of the ABI: an enumerator may get another name, its
// word stays. tests/bindings/words.cpp holds that every enumerator has one.
#pragma once

#include <array>
#include <cstddef>

#include <inlay/core/attention.hpp>
#include <inlay/core/quantization.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/moe_routing.hpp>

namespace inlay::c {

// What floats a packed form has: those of what it is made of, or others.
enum class FloatType : unsigned char { own, f32, f16, bf16 };

template <class E> struct Word {
  const char* text;
  E value;
};

template <class E> struct Words;  // an enum of a field without words does not compile

template <> struct Words<BiasOrder> {
  static constexpr Word<BiasOrder> rows[] = {{"scale_bias_softcap", BiasOrder::scale_bias_softcap},
                                             {"scale_softcap_bias", BiasOrder::scale_softcap_bias},
                                             {"bias_scale_softcap", BiasOrder::bias_scale_softcap}};
};
template <> struct Words<AttentionCompute> {
  static constexpr Word<AttentionCompute> rows[] = {{"exact_float", AttentionCompute::exact_float},
                                                    {"bf16_products", AttentionCompute::bf16_products}};
};
template <> struct Words<LinearCompute> {
  static constexpr Word<LinearCompute> rows[] = {{"exact_float", LinearCompute::exact_float},
                                                 {"bf16_products", LinearCompute::bf16_products}};
};
template <> struct Words<W4Compute> {
  static constexpr Word<W4Compute> rows[] = {{"exact_float", W4Compute::exact_float},
                                             {"int8_activations", W4Compute::int8_activations}};
};
template <> struct Words<GeluForm> {
  static constexpr Word<GeluForm> rows[] = {{"erf", GeluForm::erf},         {"tanh", GeluForm::tanh},
                                            {"quick", GeluForm::quick},     {"relu_squared", GeluForm::relu_squared},
                                            {"softcap", GeluForm::softcap}, {"xielu", GeluForm::xielu}};
};
template <> struct Words<MoeScore> {
  static constexpr Word<MoeScore> rows[] = {{"softmax", MoeScore::softmax},
                                            {"sigmoid", MoeScore::sigmoid},
                                            {"softmax_of_chosen", MoeScore::softmax_of_chosen},
                                            {"sparsemixer", MoeScore::sparsemixer}};
};
template <> struct Words<MoeGroupScore> {
  static constexpr Word<MoeGroupScore> rows[] = {{"best", MoeGroupScore::best},
                                                 {"sum_of_two", MoeGroupScore::sum_of_two}};
};
template <> struct Words<FloatType> {
  static constexpr Word<FloatType> rows[] = {
      {"own", FloatType::own}, {"f32", FloatType::f32}, {"f16", FloatType::f16}, {"bf16", FloatType::bf16}};
};
// As ggml writes them.
template <> struct Words<GgmlType> {
  static constexpr Word<GgmlType> rows[] = {
      {"F32", GgmlType::F32},       {"F16", GgmlType::F16},       {"Q4_0", GgmlType::Q4_0}, {"Q4_1", GgmlType::Q4_1},
      {"Q5_0", GgmlType::Q5_0},     {"Q5_1", GgmlType::Q5_1},     {"Q8_0", GgmlType::Q8_0}, {"Q2_K", GgmlType::Q2_K},
      {"Q3_K", GgmlType::Q3_K},     {"Q4_K", GgmlType::Q4_K},     {"Q5_K", GgmlType::Q5_K}, {"Q6_K", GgmlType::Q6_K},
      {"IQ4_NL", GgmlType::IQ4_NL}, {"IQ4_XS", GgmlType::IQ4_XS}, {"I8", GgmlType::I8},     {"I16", GgmlType::I16},
      {"I32", GgmlType::I32},       {"I64", GgmlType::I64},       {"F64", GgmlType::F64},   {"BF16", GgmlType::BF16},
      {"MXFP4", GgmlType::MXFP4}};
};

template <class E> inline constexpr std::size_t word_count = std::size(Words<E>::rows);

// Those of an enum, and null behind the last, as inlay_field shows them.
template <class E>
inline constexpr auto word_list = [] {
  std::array<const char*, word_count<E> + 1> list{};
  for (std::size_t i = 0; i < word_count<E>; ++i) list[i] = Words<E>::rows[i].text;
  return list;
}();

template <class E> constexpr const char* word_of(E value) {
  for (const auto& row : Words<E>::rows)
    if (row.value == value) return row.text;
  return nullptr;
}

}  // namespace inlay::c
