// The values of all parameters on one device: launchers ask for those that stand beside them.
//
//   runtime.tuned(softmax_piece)        runtime.lanes(softmax_lanes)
#pragma once

#include <span>

#include <inlay/cl_tuning.hpp>

namespace inlay::cl {

class Tuning {
 public:
  Tuning() = default;
  explicit Tuning(ClShape shape) : shape_(shape) {}

  int operator[](const ClParameter& parameter) const {
    for (const Value& value : set_)
      if (value.op == parameter.op && value.name == parameter.name) return value.value;
    return parameter.of(shape_).usual;
  }
  Status set(std::string_view op, std::string_view name, long value);
  // Where the values come from, for a reader.
  const std::string& origin() const { return origin_; }

  // Those that a file has for the device. A section of another driver is not used, and origin() says so.
  Status read(const std::string& file, const ClDevice& device);

 private:
  struct Value {
    std::string_view op, name;  // of the list's
    int value;
  };
  std::vector<Value> set_;  // the others have their usual values
  ClShape shape_ = ClShape::per_item;
  std::string origin_ = "as compiled in";
};

// "64, 128 or 256"
std::string choices(std::span<const int> values);
// The parameter, or what is wrong with its name.
Expected<const ClParameter*> find_parameter(std::string_view op, std::string_view name);
// May it have the value in this shape?
Status check_value(const ClParameter& parameter, ClShape shape, long value);

}  // namespace inlay::cl
