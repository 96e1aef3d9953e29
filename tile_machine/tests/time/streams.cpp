// Times of cores of several scalar streams, worked out by hand.
#include <gtest/gtest.h>

#include "tile_machine/tests/time/logs.hpp"

namespace inlay::npu {
namespace {

double started(const Timeline& timeline, std::uint32_t entry) { return to_cycles(timeline.spans[entry].started); }
double ended(const Timeline& timeline, std::uint32_t entry) { return to_cycles(timeline.spans[entry].ended); }

// The flag of another stream is on its way for 300 cycles, in which neither queue works for it.
TEST(TimingOfStreams, AFlagHasItsFlight) {
  Device device = round_device();
  device.sync.stream_cycles = 300;
  for (const bool stops : {false, true}) {
    EventWriter log;
    log.log().streams = {0, 0, 0};
    const Pipe waits = stops ? Pipe::scalar : Pipe::load_vector;
    const auto product = log.vector(100);
    log.stream_set(Pipe::vector, 0, 0, 1, 4);
    log.stream_set(Pipe::vector, 0, 0, 2, 4);
    const auto beside = log.vector(50);
    log.on_stream(1);
    const auto busy = log.dma(Pipe::load_vector, dram_load_vector, 160);
    const auto wait = log.stream_wait(waits, 0, 0, 1, 4);
    const auto after = log.dma(Pipe::load_vector, dram_load_vector, 1600);
    log.on_stream(2);
    const auto long_busy = log.vector(700);
    log.stream_wait(Pipe::vector, 0, 0, 2, 4);
    const auto at_once = log.vector(10);
    const Timeline time = timed(log.log(), device);
    EXPECT_EQ(ended(time, product), 100);
    EXPECT_EQ(ended(time, beside), 150) << "the queue that sets does not wait for the flight";
    EXPECT_EQ(ended(time, busy), 10);
    EXPECT_EQ(started(time, wait), 400);
    EXPECT_EQ(ended(time, after), 500);
    EXPECT_EQ(ended(time, long_busy), 700);
    EXPECT_EQ(started(time, at_once), 700) << "the flag had come";
    const auto of = [&](Cause cause) {
      Tick ticks = 0;
      for (const Stall& stall : time.lanes[time.order.lane(1, static_cast<std::uint32_t>(waits))].stalls)
        if (stall.cause == cause) ticks += stall.ticks;
      return to_cycles(ticks);
    };
    EXPECT_EQ(of(Cause::flag), stops ? 100 : 90) << "until the set";
    EXPECT_EQ(of(Cause::flight), 300);
    for (const LaneTime& lane : time.lanes) EXPECT_EQ(accounted(lane), time.makespan);
  }
}

// Each stream issues by itself: one that stands does not hold the others.
TEST(TimingOfStreams, StreamsIssueBesideEachOther) {
  Device device = round_device();
  for (Queue& queue : device.queues) queue.issue_cycles = 10;
  EventWriter log;
  log.log().streams = {0, 0};
  const auto first = log.vector(5), second = log.vector(5);
  log.on_stream(1);
  const auto beside = log.vector(5);
  const Timeline time = timed(log.log(), device);
  EXPECT_EQ(started(time, first), 10);
  EXPECT_EQ(started(time, second), 20);
  EXPECT_EQ(started(time, beside), 10);
  EXPECT_EQ(to_cycles(time.makespan), 25);
}

// The streams of a core share its port, those of two cores do not.
TEST(TimingOfStreams, ShareThePortOfTheirCore) {
  const Device device = round_device();  // 16 bytes a cycle and core
  for (const bool one_core : {true, false}) {
    EventWriter log(2);
    log.log().streams = {0, 0};
    const auto a = log.load(1600, 0);
    log.on_stream(1);
    const auto b = log.load(1600, one_core ? 0 : 1);
    const Timeline time = timed(log.log(), device);
    EXPECT_EQ(ended(time, a), one_core ? 200 : 100);
    EXPECT_EQ(ended(time, b), one_core ? 200 : 100);
  }
}

// sync_all is over when the last stream of the last core has come.
TEST(TimingOfStreams, AllMeet) {
  EventWriter log(2);
  log.log().streams = {0, 0};
  std::vector<std::uint32_t> meetings;
  for (std::uint16_t core = 0; core < 2; ++core)
    for (std::uint8_t stream = 0; stream < 2; ++stream) {
      log.on_stream(stream);
      log.vector(100 + 50 * core + 20 * stream, core);
      meetings.push_back(log.stream(Event::sync_all, core, "sync_all"));
    }
  const Timeline time = timed(log.log(), round_device());
  for (const std::uint32_t meeting : meetings) EXPECT_EQ(started(time, meeting), 170);
}

}  // namespace
}  // namespace inlay::npu
