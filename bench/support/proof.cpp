#include "bench/support/proof.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <map>
#include <numeric>
#include <random>
#include <utility>

#include <inlay/core/element.hpp>

namespace inlay::bench {

namespace {

constexpr std::byte poisoned{0xff};
constexpr double wrong = 1e30;

// Element k in row-major order, as an offset.
index place(const Output& output, index k) {
  index where = 0;
  for (std::size_t d = output.extents.size(); d-- > 0; k /= output.extents[d])
    where += k % output.extents[d] * output.strides[d];
  return where;
}

double rounding(DType type) { return type == DType::f16 ? 0x1p-10 : type == DType::bf16 ? 0x1p-7 : 0; }

}  // namespace

std::vector<std::byte> bytes_of(const std::vector<Output>& outputs) {
  std::vector<std::byte> bytes;
  for (const Output& output : outputs) bytes.insert(bytes.end(), output.begin, output.begin + output.bytes);
  return bytes;
}

void put_back(const std::vector<Output>& outputs, const std::vector<std::byte>& bytes) {
  const std::byte* from = bytes.data();
  for (const Output& output : outputs) {
    std::memcpy(output.begin, from, static_cast<std::size_t>(output.bytes));
    from += output.bytes;
  }
}

void poison(const std::vector<Output>& outputs) {
  for (const Output& output : outputs) std::fill_n(output.begin, output.bytes, poisoned);
}

std::string left_out(const std::vector<Output>& outputs) {
  constexpr index run = 16;  // fewer may be a result: -1 in integers
  for (const Output& output : outputs) {
    const std::byte *const begin = output.begin, *const end = begin + output.bytes;
    const std::byte* const at = std::search_n(begin, end, run, poisoned);
    if (at != end)
      return std::string(output.name) + " was not written at byte " + std::to_string(at - begin) + " of " +
             std::to_string(output.bytes);
  }
  return {};
}

std::vector<double> values_of(const Output& output) {
  index size = 1;
  for (index extent : output.extents) size *= extent;
  std::vector<double> values(static_cast<std::size_t>(size));
  for (index k = 0; k < size; ++k) values[k] = load_element(output.data, output.dtype, place(output, k));
  return values;
}

std::vector<index> drawn(index rows) {
  constexpr index most = 4096;
  std::vector<index> list(static_cast<std::size_t>(std::min(rows, most)));
  std::iota(list.begin(), list.end(), 0);
  if (rows <= 2) return list;
  list.back() = std::exchange(list[1], rows - 1);
  std::mt19937_64 rng(1);
  if (rows > most)
    for (std::size_t i = 2; i < list.size(); ++i) list[i] = std::uniform_int_distribution<index>(1, rows - 2)(rng);
  else
    std::shuffle(list.begin() + 2, list.end(), rng);
  return list;
}

void Expected::add(index row, std::vector<Output> outputs) {
  for (Output& output : outputs) {
    std::vector<double> values = values_of(output);
    parts_.push_back({row, std::move(output), std::move(values)});
  }
}

Deviation Expected::compare(double ulps) const {
  std::map<std::string_view, double> largest;
  for (const Part& part : parts_)
    for (double value : part.values) largest[part.output.name] = std::max(largest[part.output.name], std::abs(value));
  Deviation worst;
  for (const Part& part : parts_) {
    const bool exact = ulps == 0 || !floats.contains(part.output.dtype);
    const double allowed = exact ? 0 : (ulps * 0x1p-24 + rounding(part.output.dtype)) * largest[part.output.name];
    const std::vector<double> values = values_of(part.output);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double got = values[i], expected = part.values[i], distance = std::abs(got - expected);
      double error = wrong;  // of a reference that is no number too: operands are finite
      if (std::isfinite(expected) && got == expected) error = 0;
      if (std::isfinite(distance) && got != expected && allowed > 0) error = distance / allowed;
      if (error <= worst.error) continue;
      worst.error = error;
      worst.what = std::string(part.output.name) + " of row " + std::to_string(part.row) + " has " +
                   std::to_string(got) + " at element " + std::to_string(i) + ", the reference " +
                   std::to_string(expected);
    }
  }
  return worst;
}

}  // namespace inlay::bench
