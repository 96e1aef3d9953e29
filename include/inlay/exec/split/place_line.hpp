// Which device computes each step of a line, so that the whole takes least: by dynamic programming over (step, device).
//
//   step      0        1        2        3
//   npu       o--------o        o--------o        us[step][device], and an edge's cost where the device changes
//   gpu                 \______/
//
// Steps run one after the other here: it is a placement for layers that depend on each other, as those of one pass do.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec {

struct PlacementProblem {
  std::size_t devices = 0;
  std::vector<double> us = {};     // [steps][devices]; infinite: that device does not compute it
  std::vector<double> bytes = {};  // [steps]: what goes over where the step before ran on another device
  // What a change from one device to another costs, whatever goes over, [devices][devices], and each byte of it.
  std::vector<double> sync_us = {};
  double us_a_byte = 0;  // 0: both see one memory

  std::size_t steps() const { return bytes.size(); }
  double us_of(std::size_t step, std::size_t device) const { return us[step * devices + device]; }
  double edge_us(std::size_t step, std::size_t from, std::size_t to) const {
    return from == to ? 0 : sync_us[from * devices + to] + us_a_byte * bytes[step];
  }
};

struct PlacedLine {
  std::vector<std::size_t> device;  // of each step
  double us = 0;
};

// Of equals the first device is taken. Errors: lists of other lengths, a time that is negative or no number, a step
// that no device computes.
Expected<PlacedLine> place_line(const PlacementProblem& problem);

// What a line takes that is placed so.
double line_us(const PlacementProblem& problem, std::span<const std::size_t> device);

}  // namespace inlay::exec
