// What steps take on a device: measured at some numbers of rows, of attention at some numbers of pairs of a query and a
// key that it sees, and a line between them. A file of it:
//
//   {"profile": 2, "device": "npu",
//    "steps": [{"operator": "linear", "width": 4096, "input_bytes": 16384, "rows": [1, 128, 256], "us": [693, 912,
//    1884]},
//              {"operator": "flash_attention", "width": 4096, "input_bytes": 16384, "pairs": [1, 8256, 32896],
//    "us": [40, 760, 2510]}]}
//
// Steps of one operator are told apart by the width of a row of what they write and the bytes of a row of their first
// input: a linear's n and k.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

class Profile {
 public:
  explicit Profile(std::string device = {}) : device_(std::move(device)) {}

  // Errors, each with its place: what is not of the form above; numbers that are not positive, rows that do not grow.
  static Expected<Profile> from_json(std::string_view text);
  std::string json() const;
  const std::string& device() const { return device_; }

  // Another measurement: the mean counts.
  void add(const GraphStep& step, double us);
  // Fewer rows than were measured take what the fewest took; more, what the last two lead to, or in proportion where
  // there is but one. Not found: a step whose like was never measured.
  Expected<double> us(const GraphStep& step) const { return us(kind_of(step), size_of(step)); }

  // Steps that differ in size alone: in rows, or in pairs where those are counted.
  struct Kind {
    std::string name;
    index width = 0, input_bytes = 0;
    bool by_pairs = false;
    auto operator<=>(const Kind&) const = default;
  };
  static Kind kind_of(const GraphStep& step);
  static index size_of(const GraphStep& step) { return step.pairs > 0 ? step.pairs : step.rows; }
  Expected<double> us(const Kind& kind, index size) const;

 private:
  struct Mean {
    double us = 0;
    index count = 0;
  };
  using BySize = std::map<index, Mean>;

  std::string device_;
  std::map<Kind, BySize> kinds_;
};

}  // namespace inlay::exec
