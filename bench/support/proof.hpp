// The result of the last timed call, proved by the reference.
//
// Before that call its outputs are poisoned (where the call reads what it writes they get back what they held at
// first), and the reference computes rows that are drawn from all of them; after it they are compared. What the
// reference or an earlier call wrote cannot pass for the result, and neither can a part that was left out.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/backend.hpp>
#include <inlay/core/layout.hpp>

namespace inlay::bench {

// A row is what the reference computes by itself: a token, a query of one head, a panel of channels.
template <class Op> struct Proof {
  index rows = 1;
  std::function<Op(Op, index)> row = nullptr;  // the operator over one row alone; left out: everything is one row
  double ulps = 0;                             // see Deviation; 0: equal numbers, as integers and copies always are
  bool in_place = false;                       // a call reads what it writes
};

// Elements begin .. begin + count of a dimension of each view; one row of the first dimension.
template <class... Views> void keep(int dimension, index begin, index count, Views&... views) {
  ((views = views.slice(dimension, begin, count)), ...);
}
template <class... Views> void keep_row(index row, Views&... views) { keep(0, row, 1, views...); }

// A view that a call writes, whatever its rank.
struct Output {
  std::string_view name;
  void* data;
  DType dtype;
  std::vector<index> extents, strides;
  std::byte* begin;  // the bytes from its first element to its last
  index bytes;
};

template <class Op> std::vector<Output> outputs(const Op& op) {
  std::vector<Output> list;
  for_each_field(op, [&](const auto& field, const auto& value) {
    using V = std::remove_cvref_t<decltype(value)>;
    if constexpr (ViewLike<V>) {
      if constexpr (std::is_same_v<V, View<V::rank>>) {
        if (!field.is_written() || value.empty()) return;
        const ByteRange range = byte_range(value);
        const auto shift = range.begin - SpacePointer<Host>::byte_offset(value.data);
        list.push_back({field.name,
                        value.data,
                        value.dtype,
                        {value.extents.begin(), value.extents.end()},
                        {value.strides.begin(), value.strides.end()},
                        static_cast<std::byte*>(value.data) + shift,
                        range.end - range.begin});
      }
    }
  });
  return list;
}

std::vector<std::byte> bytes_of(const std::vector<Output>& outputs);
void put_back(const std::vector<Output>& outputs, const std::vector<std::byte>& bytes);

// All bits set: NaN in every float type. left_out() names an output with 16 bytes that still hold it.
void poison(const std::vector<Output>& outputs);
std::string left_out(const std::vector<Output>& outputs);

std::vector<double> values_of(const Output& output);

// The first row, the last, and others drawn at random, always the same ones: all of them where they are few.
std::vector<index> drawn(index rows);

// How far a result is from the reference, in units of ulps * eps(f32) * max|reference| plus one rounding of the
// output's type: above 1 it is wrong, and `what` says where. NaN is always wrong.
struct Deviation {
  double error = 0;
  std::string what;
};

// What rows must hold after a call.
class Expected {
 public:
  void add(index row, std::vector<Output> outputs);  // which hold it now
  Deviation compare(double ulps) const;              // with what they hold now

 private:
  struct Part {
    index row;
    Output output;
    std::vector<double> values;
  };
  std::vector<Part> parts_;
};

// Runs the reference on rows of `call`, and leaves memory as it was: on some however slow it is, on more where it is
// fast.
template <class Op> Status expect(const Op& call, const Proof<Op>& proof, Expected& expected) {
  constexpr std::size_t least = 16;
  constexpr double seconds = 0.05;
  const auto begin = std::chrono::steady_clock::now();
  const std::vector<index> rows = drawn(proof.rows);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    if (i >= least && passed.count() > seconds) break;
    const index row = rows[i];
    const Op part = proof.row ? proof.row(call, row) : call;
    const auto written = outputs(part);
    const auto before = bytes_of(written);
    if (Status status = run(Reference{}, part); !status.ok()) return status;
    expected.add(row, written);
    put_back(written, before);
  }
  return {};
}

}  // namespace inlay::bench
