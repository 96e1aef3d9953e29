// Do two strided footprints share a byte? Exact, without expanding either.
//
//   a: |####    |####    |####            runs of run_bytes, stride apart
//   b:     |####    |####    |####        the bounding boxes meet, the bytes do not
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

// `count` disjoint runs in ascending order; count 0 is the empty footprint.
struct Runs {
  std::int64_t begin = 0, bytes = 0, stride = 0, count = 0;

  std::int64_t end() const { return begin + (count - 1) * stride + bytes; }
  std::int64_t start(std::int64_t run) const { return begin + run * stride; }
};

// Runs that touch or overlap one another become one.
inline Runs runs_of(const Footprint& footprint) {
  Runs runs{static_cast<std::int64_t>(footprint.begin), static_cast<std::int64_t>(footprint.run_bytes),
            static_cast<std::int64_t>(footprint.stride), static_cast<std::int64_t>(footprint.runs)};
  if (runs.bytes == 0 || runs.count == 0) return {};
  if (runs.count == 1 || runs.stride <= runs.bytes) {
    runs.bytes += (runs.count - 1) * runs.stride;
    runs.stride = 0;
    runs.count = 1;
  }
  return runs;
}

inline std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((b - 1 - a) / b); }

// Some byte that both touch.
inline std::optional<std::uint64_t> common_byte(const Runs& a, const Runs& b) {
  if (a.count == 0 || b.count == 0 || a.begin >= b.end() || b.begin >= a.end()) return std::nullopt;
  if (a.count > b.count) return common_byte(b, a);
  const auto later = [](std::int64_t x, std::int64_t y) { return static_cast<std::uint64_t>(std::max(x, y)); };
  if (b.count == 1) return later(a.begin, b.begin);
  if (a.stride == b.stride) {
    // Run i of a meets run j of b exactly if b - a - a.bytes < (i - j) stride < b - a + b.bytes.
    const std::int64_t apart = b.begin - a.begin;
    const std::int64_t first = std::max(floor_div(apart - a.bytes, a.stride) + 1, 1 - b.count);
    if (first >= a.count || first * a.stride >= apart + b.bytes) return std::nullopt;
    const std::int64_t i = std::max<std::int64_t>(first, 0);
    return later(a.start(i), b.start(i - first));
  }
  // One run of a after the other, against the first run of b that ends behind its start.
  const std::int64_t from =
      a.stride == 0 ? 0 : std::max<std::int64_t>(0, floor_div(b.begin - a.begin - a.bytes, a.stride));
  for (std::int64_t i = from; i < a.count && a.start(i) < b.end(); ++i) {
    const std::int64_t x = a.start(i);
    const std::int64_t j = std::max<std::int64_t>(0, floor_div(x - b.begin - b.bytes, b.stride) + 1);
    if (j < b.count && b.start(j) < x + a.bytes) return later(x, b.start(j));
  }
  return std::nullopt;
}

}  // namespace inlay::npu
