// Figures of a description multiplied by name.
#include "tile_machine/price/what_if.hpp"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tests/support/source_dir.hpp"
#include "tile_machine/device/device.hpp"

namespace inlay::npu {
namespace {

std::string text_of(const std::string& name) {
  std::ifstream stream(inlay::test::source_path("tile_machine/devices/") + name + ".json");
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

Device changed(const std::string& name, std::string_view changes) {
  const auto text = what_if(text_of(name), changes);
  EXPECT_TRUE(text) << text.error().message();
  auto device = parse_device(text ? *text : "{}");
  EXPECT_TRUE(device) << device.error().message();
  return device ? std::move(*device) : Device{};
}

TEST(WhatIf, MultipliesWhatANameStandsFor) {
  const Device a2 = changed("ascend-a2-like", "/dram/bytes_per_cycle=1x");
  EXPECT_EQ(changed("ascend-a2-like", "UB=2x").memory(Space::vector).bytes, 2 * a2.memory(Space::vector).bytes);
  const Device slow = changed("ascend-a2-like", "dram=0.5x,l2=0.25x");
  EXPECT_EQ(slow.dram_bytes_per_cycle, a2.dram_bytes_per_cycle / 2);
  EXPECT_EQ(slow.dram_bytes_per_cycle_core, a2.dram_bytes_per_cycle_core / 2);
  EXPECT_EQ(slow.l2.bytes_per_cycle, a2.l2.bytes_per_cycle / 4);
  EXPECT_EQ(slow.memory(Space::vector).bytes, a2.memory(Space::vector).bytes);

  EXPECT_EQ(changed("systolic32", "dram=2x").memories[0].bytes, changed("systolic32", "").memories[0].bytes);

  // The queue of one kind of core, or of both.
  const auto speed = [](const Device& device, Space from, Space to) { return device.path(from, to)->bytes_per_cycle; };
  const double load = speed(a2, Space::global, Space::vector), staged = speed(a2, Space::global, Space::staging);
  const Device one = changed("ascend-a2-like", "aiv.mte2=2x"), both = changed("ascend-a2-like", "mte2=2x");
  EXPECT_EQ(speed(one, Space::global, Space::vector), 2 * load);
  EXPECT_EQ(speed(one, Space::global, Space::staging), staged);
  EXPECT_EQ(speed(both, Space::global, Space::staging), 2 * staged);

  // Twice as fast: half the cycles.
  const auto exp_of = [](const Device& device) {
    return device.vector.cost[static_cast<std::size_t>(VectorOp::exp)].slope;
  };
  EXPECT_EQ(exp_of(changed("hexagon-htp-like", "vector=2x")), exp_of(changed("hexagon-htp-like", "")) / 2);
}

TEST(WhatIf, SaysWhatIsWrongInOneLine) {
  const auto refused = [](std::string_view changes) {
    const auto text = what_if(text_of("systolic32"), changes);
    return text ? "it was taken" : std::string(text.error().message());
  };
  EXPECT_NE(refused("ub=2x").find("there is no ub; there are dram, ghz, cores"), std::string::npos) << refused("ub=2x");
  for (const char* bad : {"dram", "dram=", "dram=2", "dram=x", "dram=0x", "dram=-1x", "dram=2xx", "dram=nanx", "=2x"})
    EXPECT_NE(refused(bad).find("must be NAME=FACTORx"), std::string::npos) << refused(bad);
  for (const char* bad : {"/nowhere=2x", "/memories/0/name=2x", "/~=2x", "/memories=2x", "/memories/-/bytes=2x",
                          "/queues/99999999999999999999/depth=2x", "/queues/01/depth=2x"})
    EXPECT_NE(refused(bad).find("there is no number at"), std::string::npos) << refused(bad);
  EXPECT_FALSE(what_if("[]", "dram=2x"));
}

}  // namespace
}  // namespace inlay::npu
