// What steps take on a device, as measured and between that, and its file.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/ops/add.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Times are what the calibration has of a linear.
GraphStep step_of(index rows, index width = 4) {
  static std::vector<float> memory(4096);
  StepGraph graph;
  GraphRecorder<> record(graph);
  const View<2> cells(memory.data(), {rows, width});
  record(Add<Host>{.a = cells, .b = cells, .y = cells});
  EXPECT_TRUE(ok(record.take_status()));
  return graph.steps()[0];
}
TEST(device_profile, a_profile_is_a_line_between_what_was_measured) {
  Profile profile("npu");
  profile.add(step_of(128), 900);
  EXPECT_EQ(*profile.us(step_of(256)), 1800);  // in proportion
  profile.add(step_of(128), 924);              // the mean
  profile.add(step_of(16), 693);
  profile.add(step_of(256), 1884);
  EXPECT_EQ(*profile.us(step_of(1)), 693);
  EXPECT_EQ(*profile.us(step_of(16)), 693);
  EXPECT_DOUBLE_EQ(*profile.us(step_of(72)), (693 + 912) / 2.0);
  EXPECT_EQ(*profile.us(step_of(128)), 912);
  EXPECT_DOUBLE_EQ(*profile.us(step_of(192)), (912 + 1884) / 2.0);
  EXPECT_DOUBLE_EQ(*profile.us(step_of(512)), 1884 + 2 * 972);
  ASSERT_FALSE(profile.us(step_of(16, 8)).has_value());
  EXPECT_EQ(profile.us(step_of(16, 8)).error().message(),
            "the profile of npu has no add of width 8 and 32 input bytes a row");
  profile.add(step_of(300), 1000);  // less than fewer took
  EXPECT_EQ(*profile.us(step_of(600)), 1000);
}
TEST(device_profile, attention_is_told_apart_by_its_pairs) {
  Profile profile("npu");
  GraphStep step = step_of(64);
  step.pairs = 64 * 65 / 2;
  profile.add(step, 100);
  step.pairs = 2 * 64 * 65 / 2;
  EXPECT_EQ(*profile.us(step), 200);
  profile.add(step, 150);
  step.pairs = 3 * 64 * 65 / 2;
  EXPECT_EQ(*profile.us(step), 200);
  EXPECT_FALSE(profile.us(step_of(64)).has_value()) << "by rows nothing was measured";
  const auto read = Profile::from_json(profile.json());
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->json(), profile.json());
  EXPECT_EQ(*read->us(step), 200);
}
TEST(device_profile, a_profile_is_read_as_it_was_written) {
  Profile profile("npu");
  profile.add(step_of(16), 693.25);
  profile.add(step_of(128), 912);
  profile.add(step_of(7, 3), 0.5);
  const auto read = Profile::from_json(profile.json());
  ASSERT_TRUE(read.has_value()) << read.error().message();
  EXPECT_EQ(read->json(), profile.json());
  EXPECT_EQ(read->device(), "npu");
  EXPECT_EQ(*read->us(step_of(7, 3)), 0.5);
  SimDevice device({.name = "npu"}, {}, time_of(*read));
  EXPECT_EQ(device.submit(step_of(16), 1).done_us, 694.25);
}
TEST(device_profile, a_profile_says_what_is_wrong_with_it) {
  const auto refused = [](std::string text) {
    for (char& c : text)
      if (c == '\'') c = '"';
    const auto profile = Profile::from_json(text);
    return profile ? std::string("nothing") : std::string(profile.error().message());
  };
  const auto of_steps = [&](const std::string& steps) {
    return refused("{'profile': 2, 'device': 'a', 'steps': [" + steps + "]}");
  };
  const auto of_lists = [&](const std::string& rows, const std::string& us) {
    return of_steps("{'operator': 'add', 'width': 4, 'input_bytes': 16, 'rows': [" + rows + "], 'us': [" + us + "]}");
  };
  EXPECT_EQ(of_lists("1, 2", "3, 4"), "nothing");
  EXPECT_EQ(refused("{'profile': 1}"), "profile: the file must have \"profile\": 2");
  EXPECT_EQ(refused("{'profile': 2}"), "profile: /device must be a name");
  EXPECT_EQ(refused("{'profile': 2, 'device': 'a'}"), "profile: /steps must be a list");
  EXPECT_EQ(of_steps("{}"), "profile: /steps/0 must have operator, width, input_bytes, rows or pairs, and us");
  EXPECT_EQ(of_steps("7"), "profile: /steps/0 must have operator, width, input_bytes, rows or pairs, and us");
  EXPECT_EQ(of_lists("1", "3, 4"),
            "profile: /steps/0 has 1 rows and 2 us; it must have as many of both, and one at least");
  EXPECT_EQ(of_lists("2, 2", "3, 4"), "profile: /steps/0/rows/1 is 2; it must be above 0 and the one before it");
  EXPECT_EQ(of_lists("0", "3"), "profile: /steps/0/rows/0 is 0; it must be above 0 and the one before it");
  EXPECT_EQ(of_lists("1", "-3"), "profile: /steps/0/us/0 is -3; it must be above 0");
  EXPECT_EQ(of_steps("{'operator': 'a', 'width': 4, 'input_bytes': 16, 'rows': [1], 'pairs': [1], 'us': [1]}"),
            "profile: /steps/0 has rows and pairs; it must have one of them");
  EXPECT_EQ(of_steps("{'operator': 'a', 'width': 4, 'input_bytes': 16, 'pairs': [2, 1], 'us': [1, 1]}"),
            "profile: /steps/0/pairs/1 is 1; it must be above 0 and the one before it");
  const std::string one = "{'operator': 'add', 'width': 4, 'input_bytes': 16, 'rows': [1], 'us': [1]}";
  EXPECT_EQ(of_steps(one + ", " + one), "profile: /steps/1 is of the same operator, width and input_bytes as another");
}

}  // namespace
}  // namespace inlay::exec::test
