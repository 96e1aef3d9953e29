// An engine that waits for its queue by itself: what a Cl keeps from launch to launch is bounded, and what a kernel met
// is told when it is asked for at last, in the words of the operator that met it. This program stands between Inlay and
// the loader, and counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/embedding.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "measure/behind.hpp"
#include "tests/support/requirements.hpp"

namespace {

int waits = 0, timed = 0, events = 0, max_events = 0;
cl_ulong nanoseconds = 0;    // of the events that were asked for their time
cl_int answer = CL_SUCCESS;  // to clFinish, in place of the driver's

}  // namespace

extern "C" cl_int clFinish(cl_command_queue queue) {
  BEHIND(clFinish);
  ++waits;
  return answer == CL_SUCCESS ? behind(queue) : answer;
}
extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t* first,
                                         const size_t* global, const size_t* local, cl_uint count, const cl_event* list,
                                         cl_event* event) {
  BEHIND(clEnqueueNDRangeKernel);
  if (event != nullptr) max_events = std::max(max_events, ++events);
  return behind(queue, kernel, n, first, global, local, count, list, event);
}
extern "C" cl_int clGetEventProfilingInfo(cl_event event, cl_profiling_info what, size_t n, void* value, size_t* size) {
  BEHIND(clGetEventProfilingInfo);
  const cl_int error = behind(event, what, n, value, size);
  const bool is_end = what == CL_PROFILING_COMMAND_END;
  timed += is_end;
  nanoseconds += is_end ? *static_cast<cl_ulong*>(value) : -*static_cast<cl_ulong*>(value);
  return error;
}
extern "C" cl_int clReleaseEvent(cl_event event) {
  BEHIND(clReleaseEvent);
  --events;
  return behind(event);
}

namespace inlay::test {
namespace {

class ClWithoutFinish : public ::testing::Test {
 protected:
  static constexpr int room = 4096;  // slots, and events
  static constexpr index vocab = 1024, dim = 8;

  void SetUp() override { begin({}); }
  void begin(const ClOptions& options) {
    auto made = Cl::make(options);
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
    const std::array<std::int32_t, 2> ids = {700, vocab};  // the second is one too many
    ids_ = *cl_->allocate(sizeof ids);
    ASSERT_TRUE(cl_->upload(ids_, std::as_bytes(std::span(ids))).ok());
    table_ = *cl_->allocate(vocab * dim * sizeof(float));
    y_ = *cl_->allocate(2 * dim * sizeof(float));
    waits = timed = events = max_events = 0;
    nanoseconds = 0;
  }
  void TearDown() override { answer = CL_SUCCESS; }

  // One row of a table of `rows`: the good id's, or the bad one's.
  Status look_up(bool good, index rows = vocab) {
    return run(*cl_, Embedding<Cl>{.table = {table_, DType::f32, {rows, dim}},
                                   .ids = {{ids_.memory, good ? 0 : 4}, DType::i32, {1}},
                                   .y = {y_, DType::f32, {1, dim}}});
  }
  void good(int launches) {
    for (int i = 0; i < launches; ++i) ASSERT_TRUE(look_up(true).ok());
  }
  void told(std::string_view words) {
    const Status status = cl_->finish();
    EXPECT_EQ(status.message(), words);
    EXPECT_TRUE(cl_->finish().ok()) << "told twice";
  }
  // Slots that are kept: the number that the next one gets.
  int slots() { return cl_->runtime().fault_slot([](std::int64_t, std::int64_t) { return Status(); }); }

  std::optional<Cl> cl_;
  ClAddress ids_, table_, y_;
};

TEST_F(ClWithoutFinish, slots_are_bounded) {
  good(room);
  EXPECT_EQ(waits, 0);
  good(1);
  EXPECT_EQ(waits, 1);
  good(3 * room);
  EXPECT_EQ(waits, 4);
  EXPECT_LE(slots(), room);
  EXPECT_TRUE(cl_->finish().ok());
}

// Whoever met it first is named, be it the last before there was no room or the first behind.
TEST_F(ClWithoutFinish, the_operator_that_met_it_is_named) {
  for (int before : {0, room - 1, room, room + 1}) {
    SCOPED_TRACE("after " + std::to_string(before));
    good(before);
    ASSERT_TRUE(look_up(false, 900).ok());
    good(room + 5);
    ASSERT_TRUE(look_up(false, 800).ok());  // too late
    good(room);
    told("embedding: ids[0] is 1024; it must be in 0..899");
    ASSERT_TRUE(look_up(false, 800).ok());
    told("embedding: ids[0] is 1024; it must be in 0..799");
  }
}

// Nothing is launched until the queue's state is known.
TEST_F(ClWithoutFinish, a_wait_that_fails_is_told) {
  ASSERT_TRUE(look_up(false).ok());
  good(room - 1);
  answer = CL_OUT_OF_RESOURCES;
  for (int i = 0; i < 3; ++i) {
    const Status status = look_up(true);
    EXPECT_EQ(status.code(), StatusCode::internal);
    EXPECT_EQ(status.message(), "finishing on " + cl_->device().name + ": CL_OUT_OF_RESOURCES (-5)");
  }
  EXPECT_EQ(slots(), room);
  answer = CL_SUCCESS;
  good(2);
  told("embedding: ids[0] is 1024; it must be in 0..1023");
}

TEST_F(ClWithoutFinish, events_are_bounded_and_their_times_are_not_lost) {
  begin({.profiling = true});
  good(2 * room + 100);
  EXPECT_EQ(max_events, room);
  EXPECT_EQ(timed, 2 * room);
  const double told = cl_->kernel_seconds();
  EXPECT_GT(told, 0);
  EXPECT_NEAR(told, static_cast<double>(nanoseconds) * 1e-9, 1e-6 * told);
  EXPECT_EQ(timed, 2 * room + 100);
  EXPECT_EQ(events, 0);
  EXPECT_EQ(cl_->kernel_seconds(), 0);
  good(room);  // all of them have been waited for
  EXPECT_EQ(events, 0);
  EXPECT_GT(cl_->kernel_seconds(), 0);
  EXPECT_TRUE(cl_->finish().ok());
}

}  // namespace
}  // namespace inlay::test
