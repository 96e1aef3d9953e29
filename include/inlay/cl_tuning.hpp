// How OpenCL kernels are cut where several cuts are right and the device decides which one is fast: lanes that share a
// row, elements a group takes, vectors' widths. Each choice is a parameter of an operator with a few values; results
// stay within the operator's bound with each of them.
//
//   for (const ClParameter& p : cl_parameters()) use(p.op, p.name, p.of(shape).list());
//   Status status = cl.tune("softmax", "lanes", 64);   // from the next call on: sizes of workspaces may change with it
//
// A device begins with the usual values of its shape; a file (ClOptions::tuning) changes some of them.
// `inlay tune` measures, and writes such a file. docs/opencl.md shows one.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/cl.hpp>

namespace inlay {

// "per_item" and "per_group", as files and the command line call the shapes.
std::string_view name(ClShape shape);
std::optional<ClShape> shape_called(std::string_view name);

struct ClParameter {
  // Of one shape; with fewer than two values there is nothing to choose.
  struct Choice {
    int usual = 1;  // what devices get that nobody measured
    std::array<int, 6> values{};

    std::span<const int> list() const {
      std::size_t count = 0;
      while (count < values.size() && values[count] != 0) ++count;
      return {values.data(), count};
    }
  };

  std::string_view op, name;  // op: an operator, or the room that several share
  std::string_view what;
  Choice per_item, per_group;
  bool same_bits;  // results have the same bits with each value

  const Choice& of(ClShape shape) const { return shape == ClShape::per_item ? per_item : per_group; }
};

std::span<const ClParameter> cl_parameters();

// What a measurement says of one parameter.
struct ClTuned {
  struct Case {
    std::string what;  // operator and shape
    double seconds, usual_seconds;
  };
  std::string op, name;
  int value, usual;
  std::vector<Case> cases;
};

// Sets what `found` says of the device of `cl` in `file`, and keeps what else stands there. A parameter whose usual
// value is best is taken out. A reader sees the old file or the new one.
Status write_cl_tuning(const std::string& file, const Cl& cl, const std::string& date, std::span<const ClTuned> found);
// Would ClOptions::tuning be content with the file? One that is not there yet is fine.
Status check_cl_tuning(const std::string& file);

}  // namespace inlay
