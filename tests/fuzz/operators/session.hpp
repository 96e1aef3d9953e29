// One random struct after the other of one operator: drawn, changed, and refused or run.
#pragma once

#include <gtest/gtest.h>

#include <iomanip>
#include <iostream>

#include "measure/cases/compare.hpp"
#include "tests/fuzz/operators/mutate.hpp"
#include "tests/fuzz/operators/watch.hpp"
#include "tests/support/describe.hpp"
#include "tests/support/handed_out.hpp"
#ifdef INLAY_TESTS_NPU
#include "tests/support/npu_devices.hpp"
#endif

namespace inlay::fuzz {

inline constexpr std::size_t rooms = 96, room_bytes = std::size_t{1} << 20;

template <class Op> class Session {
 public:
  void run(std::uint64_t seed) {
    Draw d(rooms_, seed);
    Op op{};
    draw(d, op);
    const int count = d.chance(30) ? 0 : d.chance(60) ? 1 : d.chance(70) ? 2 : 3;
    const Changes changes = Mutator<Op>(d, op).change(count);
    ++structs_;
    const Watch watch([&] { return words(op, changes, seed); });
    SCOPED_TRACE(words(op, changes, seed));
    d.remember();
    const Status status = check(op);
    if (!status.ok()) {
      ++refused_;
      return expect_refusal(d, op, status);
    }
    if (!writes_nothing(op) && too_large(d, op)) {
      ++too_large_;
      return;
    }
    writes_nothing(op) ? ++empty_ : ++ran_;
    expect_the_reference(d, op, changes);
  }

  double share_that_ran() const { return static_cast<double>(ran_ + empty_) / static_cast<double>(structs_); }
  void report(std::ostream& out) const {
    const auto percent = [&](std::uint64_t n) { return 100 * n / (structs_ > 0 ? structs_ : 1); };
    out << std::setw(22) << Op::name << ": " << structs_ << " structs, " << percent(ran_) << "% ran, "
        << percent(empty_) << "% had nothing to write, " << percent(refused_) << "% were refused, "
        << percent(too_large_) << "% were too large to run" << std::endl;
  }

 private:
  static std::string words(const Op& op, const Changes& changes, std::uint64_t seed) {
    return "INLAY_FUZZ_SEED=" + std::to_string(seed) + " INLAY_FUZZ_RUNS=1: " + test::describe(op) +
           (changes.count > 0 ? "; changed: " + changes.fields : "");
  }

  // The words name a field, and nothing is written.
  void expect_refusal(Draw& d, const Op& op, const Status& status) {
    EXPECT_EQ(status.code(), StatusCode::invalid_argument) << status.message();
    bool named = false;
    for_each_field(op, [&](const auto& field, const auto&) {
      named = named || status.message().find(field.name) != std::string_view::npos;
    });
    EXPECT_TRUE(named) << status.message();
    EXPECT_EQ(workspace_bytes(cpu_, op), 0u);
    EXPECT_EQ(inlay::run(cpu_, op).message(), status.message());
    for (const Placed& one : d.placed())
      EXPECT_TRUE(one.bytes == 0 || std::memcmp(one.begin, one.before.data(), one.bytes) == 0)
          << "written in spite of " << status.message();
  }

  void expect_the_reference(Draw& d, const Op& op, const Changes& changes) {
    Reference reference;
    const Status expected = inlay::run(reference, op);
    const std::vector<Written> values = written(op);
    const std::vector<std::vector<bool>> owned = written_bytes(d.placed(), op);
    const int odd = static_cast<int>(d.below(3));
    const bool poison = d.chance(10);
    index turn = d.below(3);
    for (Isa isa : available_isas()) {
      std::vector<std::vector<std::byte>> first;
      // Each level with one number of threads; one of them with another, which must give the same bits.
      for (int again = 0; again < (static_cast<int>(isa) % 3 == odd ? 2 : 1); ++again) {
        const int threads = static_cast<int>(turn++ % 3) + 1;
        SCOPED_TRACE(std::string(inlay::name(isa)) + ", " + std::to_string(threads) + " threads");
        const Cpu cpu(isa, threads == 1 ? serial() : test::handed_out(threads));
        ASSERT_NO_FATAL_FAILURE(expect_computes(cpu, d, op, changes, poison, {expected, values, owned}));
        if (again == 0) {
          first = bytes_of(d);
        } else {
          ASSERT_TRUE(first == bytes_of(d)) << "other bits than with another number of threads";
        }
      }
    }
#ifdef INLAY_TESTS_NPU
    test::npu_turns(test::npus(), [&](const Npu& npu) {
      SCOPED_TRACE(test::name(npu));
      if (supports(npu, op).ok()) expect_computes(npu, d, op, changes, poison, {expected, values, owned});
      return !::testing::Test::HasFatalFailure();
    });
#endif
  }
  struct Expected {
    const Status& status;
    const std::vector<Written>& values;
    const std::vector<std::vector<bool>>& owned;
  };
  template <class Backend>
  void expect_computes(const Backend& backend, Draw& d, const Op& op, const Changes& changes, bool poison,
                       const Expected& expected) {
    d.restore();
    const std::size_t bytes = workspace_bytes(backend, op);
    ASSERT_LE(bytes, ScratchRoom::most);
    const Status status = inlay::run(backend, op, scratch_.take(bytes, poison));
    ASSERT_EQ(status.code(), expected.status.code()) << status.message() << " / " << expected.status.message();
    for (std::size_t i = 0; i < d.placed().size(); ++i) expect_gaps(d.placed()[i], expected.owned[i]);
    const std::string found =
        comparable(changes) ? distance(expected.values, written(op), nearness(op), changes).words : "";
    ASSERT_EQ(found, "");
  }

  // What is rounded to codes, or drawn, may jump where a changed scale or a tie lets it.
  bool comparable(const Changes& changes) const {
    constexpr bool jumps = std::is_same_v<Op, RmsNorm<Host>> || std::is_same_v<Op, LinearInt8<Host>> ||
                           std::is_same_v<Op, IncreFlashAttention<Host>> || std::is_same_v<Op, Sampling<Host>>;
    return !changes.wild && !(jumps && changes.count > 0 && !changes.nan);
  }

  // Not for want of a contract, but of time: broadcast operands may be as large as their extents say.
  bool too_large(const Draw& d, const Op& op) const {
    constexpr index most = index{1} << 17;
    bool large = false;
    for_each_view(op, [&](const auto&, const auto& view) {
      if (view.empty()) return;
      large = large || view.size() > most || !d.owns(view);
    });
    return large;
  }

  static std::vector<std::vector<std::byte>> bytes_of(Draw& d) {
    std::vector<std::vector<std::byte>> all;
    for (const Placed& one : d.placed()) all.emplace_back(one.begin, one.begin + one.bytes);
    return all;
  }
  static void expect_gaps(const Placed& one, const std::vector<bool>& owned) {
    for (std::size_t b = 0; b < one.bytes; ++b)
      if (!owned[b]) {
        ASSERT_EQ(one.begin[b], one.before[b]) << "byte " << b << " is no element of an output, and was written";
      }
  }

  Rooms rooms_{rooms, room_bytes};
  ScratchRoom scratch_;
  Cpu cpu_{serial()};
  std::uint64_t structs_ = 0, refused_ = 0, ran_ = 0, empty_ = 0, too_large_ = 0;
};

}  // namespace inlay::fuzz
