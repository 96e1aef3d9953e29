// Launches that are recorded: a replay has the bits of a run, of whatever the buffers hold by then; recording gives
// nothing to the queue; what kernels meet is told in the words of their operator, however many recordings came and
// went.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

class ClRecordings : public ::testing::Test {
 protected:
  static constexpr index rows = 4, dim = 40, vocab = 32;

  void SetUp() override {
    auto made = Cl::make();
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
    table_ = buffer(vocab * dim), weight_ = buffer(dim), embedded_ = buffer(rows * dim), y_ = buffer(rows * dim);
    ids_ = buffer(rows);
    std::vector<float> numbers(vocab * dim);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<float>(i * 7919 % 1013) / 64 - 5;
    put<float>(table_, numbers);
    put<float>(weight_, std::span(numbers).first(dim));
    put<std::int32_t>(ids_, std::array<std::int32_t, rows>{3, 1, 31, 0});
  }

  ClAddress buffer(index count) { return *cl_->allocate(static_cast<std::size_t>(4 * count)); }
  template <class T> void put(ClAddress to, std::span<const T> from) {
    ASSERT_TRUE(cl_->upload(to, std::as_bytes(from)).ok());
  }
  std::vector<float> result() {
    std::vector<float> values(rows * dim);
    EXPECT_TRUE(cl_->download(std::as_writable_bytes(std::span(values)), y_).ok());
    return values;
  }
  // Rows of the table, normed, and twice that.
  Status step(index of_vocab = vocab) {
    const View<2, Cl> embedded(embedded_, DType::f32, {rows, dim}), y(y_, DType::f32, {rows, dim});
    Status status = run(
        *cl_, Embedding<Cl>{
                  .table = {table_, DType::f32, {of_vocab, dim}}, .ids = {ids_, DType::i32, {rows}}, .y = embedded});
    if (status.ok())
      status = run(*cl_, RmsNorm<Cl>{.x = embedded, .weight = {weight_, DType::f32, {dim}}, .y = y, .eps = 1e-5f});
    return status.ok() ? run(*cl_, Add<Cl>{.a = y, .b = y, .y = y}) : std::move(status);
  }
  ClRecording recorded(index of_vocab = vocab) {
    auto recording = cl_->record([&] { return step(of_vocab); });
    EXPECT_TRUE(recording.has_value()) << recording.error().message();
    return std::move(*recording);
  }
  void told(std::string_view words) {
    EXPECT_EQ(cl_->finish().message(), words);
    EXPECT_TRUE(cl_->finish().ok()) << "told twice";
  }

  std::optional<Cl> cl_;
  ClAddress table_, weight_, embedded_, y_, ids_;
};

TEST_F(ClRecordings, a_replay_is_a_run_of_what_is_there_then) {
  put<float>(y_, std::vector<float>(rows * dim, 77));
  const ClRecording recording = recorded();
  EXPECT_EQ(recording.launches(), 3u);
  ASSERT_TRUE(cl_->finish().ok());
  EXPECT_EQ(result(), std::vector<float>(rows * dim, 77));  // recording computes nothing
  std::vector<std::vector<float>> expected, got;
  for (const auto& ids : {std::array<std::int32_t, rows>{3, 1, 31, 0}, {5, 5, 6, 30}, {0, 2, 4, 6}}) {
    put<std::int32_t>(ids_, ids);
    ASSERT_TRUE(step().ok());
    expected.push_back(result());
    put<float>(y_, std::vector<float>(rows * dim, 77));
    ASSERT_TRUE(cl_->replay(recording).ok());
    got.push_back(result());
  }
  EXPECT_EQ(got, expected);
  EXPECT_NE(got[0], got[1]);
  EXPECT_TRUE(cl_->finish().ok());
}

TEST_F(ClRecordings, what_a_replay_meets_is_told_each_time) {
  const ClRecording all = recorded(), few = recorded(4);
  for (int time = 0; time < 3; ++time) {
    ASSERT_TRUE(cl_->replay(all).ok());
    ASSERT_TRUE(cl_->finish().ok());
    ASSERT_TRUE(cl_->replay(few).ok());
    told("embedding: ids[2] is 31; it must be in 0..3");
    ASSERT_TRUE(step(17).ok());  // beside a run, whose slot has a number from 0 on
    ASSERT_TRUE(cl_->replay(all).ok());
    told("embedding: ids[2] is 31; it must be in 0..16");
  }
}

// Slots are given out again, but not before a wait: what was replayed may still meet something.
TEST_F(ClRecordings, a_recording_that_is_gone_has_its_words) {
  std::size_t most = 0;
  for (index time = 1; time <= 40; ++time) {
    {
      const ClRecording gone = recorded(4 + time % 20);
      ASSERT_TRUE(cl_->replay(gone).ok());
    }
    const ClRecording next = recorded(31);  // has the slot of the one that is gone, if that may be
    told("embedding: ids[2] is 31; it must be in 0.." + std::to_string(3 + time % 20));
    ASSERT_TRUE(cl_->replay(next).ok());
    told("embedding: ids[2] is 31; it must be in 0..30");
    const auto slots = cl_->runtime().begin_recording().ok() ? cl_->runtime().end_recording() : nullptr;
    most = std::max(most, static_cast<std::size_t>(-slots->slot([](auto, auto) { return Status(); })));
  }
  EXPECT_LE(most, 6u);
}

TEST_F(ClRecordings, a_wait_within_forgets_no_slot) {
  auto recording = cl_->record([&] {
    Status status = step(4);
    return status.ok() ? cl_->finish() : std::move(status);
  });
  ASSERT_TRUE(recording.has_value());
  ASSERT_TRUE(cl_->finish().ok());
  ASSERT_TRUE(cl_->replay(*recording).ok());
  told("embedding: ids[2] is 31; it must be in 0..3");
}

TEST_F(ClRecordings, what_cannot_be_recorded_is_refused) {
  float value = 0;
  const auto refused = [&](std::string_view words, auto&& body) {
    const auto recording = cl_->record(body);
    ASSERT_FALSE(recording.has_value());
    EXPECT_NE(recording.error().message().find(words), std::string_view::npos) << recording.error().message();
    ASSERT_TRUE(step().ok());  // it is over: what comes is computed
    EXPECT_NE(result()[0], 0);
    put<float>(y_, std::vector<float>(rows * dim, 0));
  };
  const ClRecording one = recorded();
  refused("an upload goes by at once", [&] { return cl_->upload(y_, std::as_bytes(std::span(&value, 1))); });
  refused("a download goes by at once",
          [&] { return cl_->download(std::as_writable_bytes(std::span(&value, 1)), ConstClAddress(y_)); });
  refused("a recording is under way", [&] {
    auto inner = cl_->record([] { return Status(); });
    return inner ? Status() : std::move(inner.error());
  });
  refused("a recording is under way", [&] { return cl_->replay(one); });
  refused("weight is missing", [&] {
    if (Status status = step(); !status.ok()) return status;
    return run(*cl_, RmsNorm<Cl>{.x = {y_, DType::f32, {rows, dim}}, .weight = {}, .y = {y_, DType::f32, {rows, dim}}});
  });
}

TEST_F(ClRecordings, another_devices_is_refused) {
  std::optional<ClRecording> recording(recorded());
  auto other = Cl::make();
  ASSERT_TRUE(other.has_value());
  EXPECT_NE(other->replay(*recording).message().find("the recording is another device's"), std::string_view::npos);
  *cl_ = std::move(*other);  // its own is gone
  EXPECT_FALSE(cl_->replay(*recording).ok());
  recording.reset();
  EXPECT_TRUE(cl_->finish().ok());
}

}  // namespace
}  // namespace inlay::test
