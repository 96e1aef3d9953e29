// Placements of a line of steps, against every placement there is.
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <inlay/exec/split/place_line.hpp>

namespace inlay::exec::test {
namespace {

constexpr double never = std::numeric_limits<double>::infinity();

// By the definition alone: times, and what a change of devices costs.
double least_us(const PlacementProblem& p, std::size_t step, std::size_t last) {
  if (step == p.bytes.size()) return 0;
  double least = never;
  for (std::size_t device = 0; device < p.devices; ++device) {
    double us = p.us[step * p.devices + device];
    if (step > 0 && device != last) us += p.sync_us[last * p.devices + device] + p.us_a_byte * p.bytes[step];
    least = std::min(least, us + least_us(p, step + 1, device));
  }
  return least;
}

TEST(place_line, no_placement_takes_less) {
  std::mt19937 random(3);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  for (int round = 0; round < 80; ++round) {
    PlacementProblem p{.devices = static_cast<std::size_t>(draw(1, 3)), .us_a_byte = draw(0, 2) / 4.0};
    const int steps = draw(1, 7);
    for (int step = 0; step < steps; ++step) {
      p.bytes.push_back(draw(0, 20));
      for (std::size_t device = 0; device < p.devices; ++device)
        p.us.push_back(device > 0 && draw(0, 4) == 0 ? never : draw(1, 50));
    }
    for (std::size_t i = 0; i < p.devices * p.devices; ++i) p.sync_us.push_back(draw(0, 30));
    const auto placement = place_line(p);
    ASSERT_TRUE(placement.has_value()) << placement.error().message();
    ASSERT_EQ(placement->device.size(), p.bytes.size());
    EXPECT_EQ(placement->us, least_us(p, 0, 0)) << "round " << round;
    EXPECT_EQ(line_us(p, placement->device), placement->us);
  }
}
TEST(place_line, a_change_is_worth_it_or_not) {
  PlacementProblem p{.devices = 2, .us = {5, 1, 1, 5, 5, 1}, .bytes = {0, 8, 8}, .sync_us = {0, 1, 1, 0}};
  EXPECT_EQ(place_line(p)->device, (std::vector<std::size_t>{1, 0, 1}));
  EXPECT_EQ(place_line(p)->us, 5);
  p.us_a_byte = 0.25;
  EXPECT_EQ(place_line(p)->device, (std::vector<std::size_t>{1, 1, 1}));
  EXPECT_EQ(place_line({.devices = 2, .us = {}, .bytes = {}, .sync_us = {0, 1, 1, 0}})->us, 0);
}
TEST(place_line, bad_input_is_named) {
  const auto refused = [](const PlacementProblem& p) {
    const auto placement = place_line(p);
    return placement ? std::string("nothing") : std::string(placement.error().message());
  };
  EXPECT_EQ(refused({}), "placement: devices is 0; it must be 1 at least");
  EXPECT_EQ(refused({.devices = 2, .us = {1}, .bytes = {0}}), "placement: us has 1 numbers; it must have 2");
  EXPECT_EQ(refused({.devices = 1, .us = {1}, .bytes = {0}}), "placement: sync_us has 0 numbers; it must have 1");
  EXPECT_EQ(refused({.devices = 1, .us = {-1}, .bytes = {0}, .sync_us = {0}}),
            "placement: us[0] is -1.000000; it must be 0 or more");
  EXPECT_EQ(refused({.devices = 1, .us = {1}, .bytes = {0}, .sync_us = {0}, .us_a_byte = -2}),
            "placement: us_a_byte is -2.000000; it must be 0 or more");
  EXPECT_EQ(refused({.devices = 1, .us = {1, never}, .bytes = {0, 0}, .sync_us = {0}}),
            "placement: no device computes step 1");
}

}  // namespace
}  // namespace inlay::exec::test
