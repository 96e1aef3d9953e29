// What may be tuned. A value that a kernel is built with costs a build for each one that a test or a tuner tries: lists
// are short.
#include <iterator>

#include "cl_kernels/tuning/tuning.hpp"

namespace inlay {

namespace {

using cl::Tunable;
using Choice = ClParameter::Choice;

struct Row {
  Tunable tunable;
  ClParameter parameter;
};

// In the cpu shape a row has one work-item.
constexpr Choice one{1, {1}};
constexpr Choice lanes{128, {32, 64, 128, 256}};
// A GPU moves 16 bytes a lane, which is eight numbers of 16 bits.
constexpr Choice wide{16, {8, 16}}, eight{8, {8}};

// Some microseconds of memory traffic for a thread of a CPU; two vectors of eight for each of 128 work-items.
constexpr Choice long_piece = {16384, {4096, 8192, 16384, 32768, 65536}};
constexpr Choice short_piece = {2048, {1024, 2048, 4096, 8192}};

constexpr std::string_view of_row = "work-items that share a row";
constexpr std::string_view of_vector = "elements of a vector";
constexpr std::string_view of_piece = "elements of a row that a group takes";

constexpr Row table[] = {
    {Tunable::add_lanes, {"add", "lanes", of_row, one, lanes, true}},
    {Tunable::add_width, {"add", "width", of_vector, wide, eight, true}},
    {Tunable::attention_lanes,
     {"attention", "lanes", "work-items that share the keys of a unit", one, {128, {64, 128, 256}}, false}},
    {Tunable::attention_unit_rows,
     {"attention", "unit_rows", "rows of a prompt that a work-item takes", {32, {16, 32, 64}}, one, true}},
    {Tunable::dequantize_lanes, {"dequantize", "lanes", of_row, one, lanes, true}},
    {Tunable::dequantize_width, {"dequantize", "width", of_vector, wide, eight, true}},
    {Tunable::embedding_lanes, {"embedding", "lanes", of_row, one, lanes, true}},
    {Tunable::gelu_lanes, {"gelu", "lanes", of_row, one, lanes, true}},
    {Tunable::gelu_piece, {"gelu", "piece", of_piece, long_piece, short_piece, true}},
    {Tunable::gelu_width, {"gelu", "width", of_vector, wide, eight, false}},
    {Tunable::kv_cache_lanes,
     {"kv_cache", "lanes", "work-items that write a head of a token", one, {32, {16, 32, 64, 128}}, true}},
    {Tunable::kv_cache_copy_lanes,
     {"kv_cache", "copy_lanes", "work-items that copy runs of a block", one, {256, {64, 128, 256}}, true}},
    {Tunable::kv_cache_tokens,
     {"kv_cache", "tokens", "tokens that a work-item writes one after the other", {16, {1, 4, 8, 16}}, one, true}},
    {Tunable::linear_lanes,
     {"linear", "lanes", "work-items that share a panel by few rows", one, {64, {32, 64, 128}}, true}},
    {Tunable::linear_int8_lanes,
     {"linear_int8", "lanes", "work-items that share a panel by few rows", one, {64, {32, 64, 128}}, false}},
    {Tunable::linear_w4a16_lanes,
     {"linear_w4a16", "lanes", "work-items that share a panel by few rows", one, {128, {64, 128, 256}}, true}},
    // Sixteen lanes take 128 elements at a time, a usual head_dim.
    {Tunable::merge_states_lanes, {"merge_states", "lanes", of_row, one, {16, {8, 16, 32}}, true}},
    {Tunable::merge_states_rows,
     {"merge_states", "rows", "rows of a group", {8, {1, 2, 4, 8, 16}}, {4, {1, 2, 4, 8}}, true}},
    {Tunable::quantize_lanes, {"quantize", "lanes", of_row, one, lanes, true}},
    {Tunable::quantize_width, {"quantize", "width", of_vector, wide, eight, true}},
    {Tunable::rms_norm_lanes, {"rms_norm", "lanes", of_row, one, lanes, false}},
    {Tunable::rms_norm_width, {"rms_norm", "width", of_vector, wide, eight, false}},
    {Tunable::rope_lanes, {"rope", "lanes", "work-items of a group", one, {64, {32, 64, 128, 256}}, true}},
    {Tunable::softmax_lanes,
     {"softmax", "lanes", "work-items that share a row of more than 512", one, {128, {64, 128, 256}}, false}},
    // Two vectors of eight for each work-item; and 32 of them meet by shuffles alone, where a device has them.
    {Tunable::softmax_short_lanes,
     {"softmax", "short_lanes", "work-items that share a row of up to 512", one, {32, {16, 32, 64}}, false}},
    // A piece stays in the cache of a core over its passes; on a GPU a group has four vectors of it for each work-item.
    // Sums of longer ones than these lose more than 32 ulps (`inlay tune` dropped them).
    {Tunable::softmax_piece,
     {"softmax", "piece", of_piece, {16384, {4096, 8192, 16384}}, {4096, {2048, 4096, 8192, 16384}}, false}},
    {Tunable::softmax_width, {"softmax", "width", of_vector, wide, eight, false}},
    {Tunable::swiglu_lanes, {"swiglu", "lanes", of_row, one, lanes, true}},
    {Tunable::swiglu_piece, {"swiglu", "piece", of_piece, long_piece, short_piece, true}},
    {Tunable::swiglu_width, {"swiglu", "width", of_vector, wide, eight, false}},
};
constexpr std::size_t count = std::size(table);
static_assert(count == static_cast<std::size_t>(Tunable::count));

// Launchers ask by number, files by name: both must mean one row. The usual value is one of the list.
constexpr bool rows_are_in_order() {
  for (std::size_t i = 0; i < count; ++i) {
    if (static_cast<std::size_t>(table[i].tunable) != i) return false;
    for (const Choice& choice : {table[i].parameter.cpu, table[i].parameter.gpu}) {
      bool is_listed = false;
      for (int value : choice.values) is_listed = is_listed || value == choice.usual;
      if (!is_listed) return false;
    }
  }
  return true;
}
static_assert(rows_are_in_order());

constexpr std::array<ClParameter, count> parameters = [] {
  std::array<ClParameter, count> list{};
  for (std::size_t i = 0; i < count; ++i) list[i] = table[i].parameter;
  return list;
}();

}  // namespace

std::span<const ClParameter> cl_parameters() { return parameters; }

}  // namespace inlay
