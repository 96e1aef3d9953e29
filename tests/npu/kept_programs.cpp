// What an Npu keeps of a call serves the next one of its kind, and none but those: every operator at random shapes,
// then with each of its fields changed in turn, on an Npu that has seen the operator before and on one that has not. A
// second call of a kind allocates nothing.
//
//   INLAY_FUZZ_RUNS   structs of each operator     INLAY_FUZZ_SEED   of the first one
#include <gtest/gtest.h>

#include <algorithm>

#include <inlay/npu.hpp>

#include "npu_kernels/backend/runtime.hpp"
#include "tests/fuzz/operators/every.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/growth.hpp"

namespace inlay::fuzz {
namespace {

Npu npu_of(std::string_view device) {
  auto npu = Npu::make({.device = std::string(device), .cores = 2});
  if (!npu) npu = Npu::make({.device = std::string(device)});  // it has one
  EXPECT_TRUE(npu.has_value());
  return std::move(*npu);
}

template <class Op> class KeptPrograms : public ::testing::Test {
 protected:
  using Bytes = std::vector<std::vector<std::byte>>;

  struct Result {
    Status status;
    Bytes bytes;                // of all operands
    std::size_t allocated = 0;  // behind check()
  };
  // From the bytes that the operands hold now, which come back.
  Result result(const Npu& npu, Draw& d, const Op& op) {
    d.remember();
    Result result;
    const test::Growth growth;
    const Workspace workspace = scratch_.take(scratch_bytes(npu, op), true);
    result.status = compute(npu, op, workspace);
    result.allocated = growth.allocations();
    for (const Placed& one : d.placed()) result.bytes.emplace_back(one.begin, one.begin + one.bytes);
    d.restore();
    return result;
  }

  // The same elements in another order.
  template <class V> static void shuffle(Draw& d, const V& view) {
    for (Placed& one : d.placed())
      if (view.present() && bytes_of(view) >= one.begin && bytes_of(view) < one.begin + one.bytes) {
        const auto width = std::max<std::ptrdiff_t>(1, bits(view.dtype) / 8);
        std::rotate(one.begin, one.begin + width, one.begin + static_cast<std::ptrdiff_t>(one.bytes) / width * width);
      }
  }
  template <class V> static std::byte* bytes_of(const V& view) {
    return static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data)));
  }

  bool runs(const Npu& npu, const Draw& d, const Op& op) const {
    if (has_experts(op)) return false;  // run takes them apart
    if (!check(op).ok() || !supports(npu, op).ok() || writes_nothing(op)) return false;
    bool small = true;
    for_each_view(op, [&](const auto&, const auto& view) {
      small = small && (view.empty() || (view.size() <= index{1} << 15 && d.owns(view)));
    });
    return small;
  }

  void expect_as_fresh(const Npu& kept, Draw& d, const Op& op, std::string_view changed) {
    if (!runs(kept, d, op)) return;
    const Npu fresh = npu_of(kept.device_name());
    const Result expected = result(fresh, d, op);
    for (int time = 0; time < 2; ++time) {
      const Result found = result(kept, d, op);
      ASSERT_EQ(found.status.code(), expected.status.code()) << found.status.message();
      ASSERT_TRUE(found.bytes == expected.bytes)
          << "other bits than on an Npu that has not seen it before; changed: " << changed << "; "
          << test::describe(op);
    }
    ++compared_;
  }

  // The struct with each of its fields changed alone, and its memory as it was afterwards.
  void expect_each_field_counts(const Npu& kept, Draw& d, Op op) {
    Op::fields.for_each([&](const auto& field) { change(kept, d, op, field); });
    std::vector<index> extents;
    for_each_view(op, [&](const auto&, const auto& view) {
      for (const index extent : view.extents)
        if (extent > 1 && std::find(extents.begin(), extents.end(), extent) == extents.end()) extents.push_back(extent);
    });
    for (const index extent : extents)
      change_views(kept, d, op, "an extent of " + std::to_string(extent), [&](auto& view) {
        for (index& each : view.extents)
          if (each == extent) --each;
      });
    change_views(kept, d, op, "f16 read as bf16", [](auto& view) {
      if (view.dtype == DType::f16) view.dtype = DType::bf16;
    });
  }

 private:
  template <class F> void change(const Npu& kept, Draw& d, Op& op, const F& field) {
    if (::testing::Test::HasFatalFailure()) return;
    auto& value = op.*(field.member);
    using T = std::remove_cvref_t<decltype(value)>;
    const T before = value;
    if constexpr (ListOfViews<T>) {
      return;  // other contents and places come with the caches that are no list
    } else if constexpr (ViewLike<T>) {
      if (!value.present() || value.empty() || !d.owns(value)) return;
      change_contents(kept, d, op, field.name, value);
      for (int axis = 0; axis < T::rank; ++axis) {  // rows of its own memory one apart
        value.strides[static_cast<std::size_t>(axis)] += bits(value.dtype) < 8 ? 2 : 1;
        if (extent_of(value, room_bytes).fits && d.place(value)) {
          d.fill(value, 0, 1);
          expect_as_fresh(kept, d, op, std::string(field.name) + ", a stride");
        }
        value = before;
      }
      // The same elements elsewhere.
      if (const Extent extent = extent_of(value, room_bytes); extent.fits && d.place(value)) {
        std::memmove(bytes_of(value) - extent.first, bytes_of(before) - extent.first, extent.bytes);
        expect_as_fresh(kept, d, op, std::string(field.name) + ", its place");
      }
    } else if constexpr (std::is_same_v<T, bool>) {
      value = !value;
    } else if constexpr (std::is_same_v<T, float>) {
      value = value / 2 + 0.25f;
    } else {
      value = static_cast<T>(static_cast<std::int64_t>(value) + 1);
    }
    expect_as_fresh(kept, d, op, field.name);
    value = before;
  }

  // All views at once, but for those of lists.
  template <class Change>
  void change_views(const Npu& kept, Draw& d, Op op, const std::string& changed, Change&& of_view) {
    if (::testing::Test::HasFatalFailure()) return;
    for_each_field(op, [&](const auto&, auto& value) {
      if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>) of_view(value);
    });
    expect_as_fresh(kept, d, op, changed);
  }

  // Floats in another order; whole numbers one less or one more, as long as the contract lets them.
  template <class V> void change_contents(const Npu& kept, Draw& d, Op& op, std::string_view name, V& view) {
    for (Placed& one : d.placed()) {
      if (bytes_of(view) < one.begin || bytes_of(view) >= one.begin + one.bytes) continue;
      const std::vector<std::byte> before(one.begin, one.begin + one.bytes);
      const bool whole = view.dtype == DType::i32 || view.dtype == DType::i64;
      if (whole) {
        const std::size_t width = view.dtype == DType::i64 ? 8 : 4;
        for (const int by : {-1, 1}) {
          for (std::size_t at = 0; at + width <= one.bytes; at += width) {
            std::byte old[8];
            std::memcpy(old, one.begin + at, width);
            if (by < 0 && std::all_of(old, old + width, [](std::byte b) { return b == std::byte{0}; })) continue;
            add(one.begin + at, view.dtype, by);
            if (!check(op).ok()) std::memcpy(one.begin + at, old, width);
          }
          expect_as_fresh(kept, d, op, std::string(name) + ", its contents");
        }
      } else {
        shuffle(d, view);
        expect_as_fresh(kept, d, op, std::string(name) + ", its contents");
      }
      std::copy(before.begin(), before.end(), one.begin);
      return;
    }
  }
  static void add(std::byte* to, DType dtype, int by) {
    if (dtype == DType::i64) {
      std::int64_t value;
      std::memcpy(&value, to, sizeof(value));
      value += by;
      std::memcpy(to, &value, sizeof(value));
    } else {
      std::int32_t value;
      std::memcpy(&value, to, sizeof(value));
      value += by;
      std::memcpy(to, &value, sizeof(value));
    }
  }

 protected:
  static constexpr std::size_t room_bytes = std::size_t{1} << 17;
  Rooms rooms_{160, room_bytes};
  ScratchRoom scratch_;
  std::size_t compared_ = 0;
};
TYPED_TEST_SUITE(KeptPrograms, EveryOperator, OperatorNames);

TYPED_TEST(KeptPrograms, serve_their_kind_and_no_other) {
  const std::uint64_t first = number("INLAY_FUZZ_SEED", 1), structs = number("INLAY_FUZZ_RUNS", 8);
  std::vector<Npu> kept;
  for (const std::string_view device : npu_devices()) kept.push_back(npu_of(device));
  for (std::uint64_t i = 0; i < structs; ++i) {
    Draw d(this->rooms_, first + i);
    TypeParam op{};
    draw(d, op);
    const Npu& npu = kept[i % kept.size()];
    SCOPED_TRACE(npu.device_name() + ", INLAY_FUZZ_SEED=" + std::to_string(first + i) + ": " + test::describe(op));
    this->expect_as_fresh(npu, d, op, "nothing");
    if (::testing::Test::HasFatalFailure()) return;
    this->expect_each_field_counts(npu, d, op);
    if (::testing::Test::HasFatalFailure()) return;
  }
  const bool on_the_host = std::is_same_v<TypeParam, RopeTable<Host>>;
  EXPECT_EQ(this->compared_ == 0, on_the_host);
}

TYPED_TEST(KeptPrograms, a_second_call_allocates_nothing) {
  std::vector<Npu> kept;
  for (const std::string_view device : npu_devices()) kept.push_back(npu_of(device));
  std::size_t calls = 0;
  for (std::uint64_t seed = number("INLAY_FUZZ_SEED", 100), last = seed + 1000; calls < 16 && seed < last; ++seed) {
    Draw d(this->rooms_, seed);
    TypeParam op{};
    draw(d, op);
    const Npu& npu = kept[calls % kept.size()];
    if (!this->runs(npu, d, op)) continue;
    SCOPED_TRACE(npu.device_name() + ", INLAY_FUZZ_SEED=" + std::to_string(seed) + ": " + test::describe(op));
    ASSERT_GT(this->result(npu, d, op).allocated, 0u) << "the first call must be seen to";
    EXPECT_EQ(this->result(npu, d, op).allocated, 0u);
    // Other values, ids and positions. Not logits: greedy sampling decides by what it reads, and runs again.
    for_each_field(op, [&](const auto& field, const auto& value) {
      if constexpr (ViewLike<std::remove_cvref_t<decltype(value)>>)
        if (field.name == "x" || field.name == "ids" || field.name == "positions") this->shuffle(d, value);
    });
    EXPECT_EQ(this->result(npu, d, op).allocated, 0u) << "with other contents";
    ++calls;
  }
  const bool on_the_host = std::is_same_v<TypeParam, RopeTable<Host>>;
  EXPECT_EQ(calls == 0, on_the_host);
}

// A program takes hundreds of allocations, a log thousands; what is looked up, at most that of its text.
TYPED_TEST(KeptPrograms, a_known_estimate_builds_no_program) {
  const Npu npu = npu_of("hexagon-htp-like");
  const auto estimate_of = [&](const npu::AnyOperator& any) { return npu::estimate(npu, any); };
  std::size_t estimates = 0;
  for (std::uint64_t seed = number("INLAY_FUZZ_SEED", 100), last = seed + 1000; estimates < 3 && seed < last; ++seed) {
    Draw d(this->rooms_, seed);
    TypeParam op{};
    draw(d, op);
    if (!this->runs(npu, d, op)) continue;
    const auto first = npu::about(op, estimate_of);
    ASSERT_TRUE(first.has_value()) << first.error().message();
    const test::Growth growth;
    const auto again = npu::about(op, estimate_of);
    EXPECT_LE(growth.allocations(), 1u);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(again->cycles, first->cycles);
    ++estimates;
  }
  EXPECT_EQ(estimates == 0, (std::is_same_v<TypeParam, RopeTable<Host>>));
}

// A decode loop asks for another length at each step; here for another stride, which is a key as well.
TEST(kept_programs, are_bounded_however_many_kinds_there_are) {
  const Npu npu = npu_of("systolic32");
  std::vector<float> x(4, 1), y(4), scratch(1024);
  const auto add = [&](std::size_t kind) {
    const std::array<index, 2> strides{4 + static_cast<index>(kind), 1};
    return Add<Host>{.a = ConstView<2>(x.data(), DType::f32, {1, 4}, strides),
                     .b = ConstView<2>(x.data(), DType::f32, {1, 4}, strides),
                     .y = View<2>(y.data(), DType::f32, {1, 4}, strides)};
  };
  for (std::size_t kind = 0; kind < 3 * npu::max_kept; ++kind) {
    ASSERT_TRUE(run(npu, add(kind), std::as_writable_bytes(std::span(scratch))).ok());
    ASSERT_TRUE(estimate(npu, add(kind)).has_value());
    ASSERT_LE(npu.runtime().programs(), npu::max_kept) << kind;
    ASSERT_LE(npu.runtime().estimates(), npu::max_kept) << kind;
  }
  EXPECT_GE(npu.runtime().programs(), npu::max_kept / 2);
  EXPECT_GE(npu.runtime().estimates(), npu::max_kept / 2);
  // What went is made again.
  y.assign(4, 0);
  ASSERT_TRUE(run(npu, add(0), std::as_writable_bytes(std::span(scratch))).ok());
  EXPECT_EQ(y, std::vector<float>(4, 2));
}

}  // namespace
}  // namespace inlay::fuzz
