// The values of all parameters on one device: launchers ask for them by number.
//
//   runtime.tuned(Tunable::softmax_piece)        runtime.lanes(Tunable::softmax_lanes)
#pragma once

#include <array>
#include <span>

#include <inlay/cl_tuning.hpp>

namespace inlay::cl {

// In the order of cl_parameters().
enum class Tunable : unsigned char {
  add_lanes,
  add_width,
  attention_lanes,
  attention_unit_rows,
  dequantize_lanes,
  dequantize_width,
  embedding_lanes,
  gelu_lanes,
  gelu_piece,
  gelu_width,
  kv_cache_lanes,
  kv_cache_copy_lanes,
  kv_cache_tokens,
  linear_lanes,
  linear_int8_lanes,
  linear_w4a16_lanes,
  merge_states_lanes,
  merge_states_rows,
  quantize_lanes,
  quantize_width,
  rms_norm_lanes,
  rms_norm_width,
  rope_lanes,
  softmax_lanes,
  softmax_short_lanes,
  softmax_piece,
  softmax_width,
  swiglu_lanes,
  swiglu_piece,
  swiglu_width,
  count
};

// A value that was measured on some devices: those of a vendor whose name holds `name` (an architecture, a device;
// empty: all of the vendor's). Of several rows that fit, the last one counts: the general ones come first.
struct Known {
  std::string_view vendor, name;
  ClShape shape;
  Tunable parameter;
  int value;
};
std::span<const Known> known_devices();

class Tuning {
 public:
  Tuning() = default;
  Tuning(const ClDevice& device, ClShape shape, std::span<const Known> known = known_devices());

  int operator[](Tunable parameter) const { return values_[static_cast<std::size_t>(parameter)]; }
  Status set(std::string_view op, std::string_view name, long value);
  // Where the values come from, for a reader.
  const std::string& origin() const { return origin_; }

  // Those that a file has for the device. A section of another driver is not used, and origin() says so.
  Status read(const std::string& file, const ClDevice& device);

 private:
  std::array<int, static_cast<std::size_t>(Tunable::count)> values_{};
  ClShape shape_ = ClShape::cpu;
  std::string origin_ = "as compiled in";
};

// "64, 128 or 256"
std::string choices(std::span<const int> values);
// The parameter, or what is wrong with its name.
Expected<const ClParameter*> find_parameter(std::string_view op, std::string_view name);
// May it have the value in this shape?
Status check_value(const ClParameter& parameter, ClShape shape, long value);

}  // namespace inlay::cl
