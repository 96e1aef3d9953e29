// The four descriptions of devices/ load, and every number of theirs has its provenance.
#include <algorithm>
#include <functional>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include "tile_machine/device/device.hpp"
#include "tile_machine/tests/device/files.hpp"

namespace inlay::npu {
namespace {

class Shipped : public testing::TestWithParam<const char*> {};

TEST_P(Shipped, loads) {
  const std::string name = GetParam();
  const auto device = load_device(directory / (name + ".json"));
  ASSERT_TRUE(device) << device.error().message();
  EXPECT_EQ(device->name, name);
  EXPECT_GE(device->version, 2);
}

// Walks the JSON beside the loader: what it counts, the loader has to have found.
TEST_P(Shipped, every_number_has_its_provenance) {
  const std::string name = GetParam();
  const Json json = description(name);
  const auto device = load_device(directory / (name + ".json"));
  ASSERT_TRUE(device) << device.error().message();

  std::set<std::string> numbers;
  std::function<void(const Json&, const std::string&)> walk = [&](const Json& value, const std::string& pointer) {
    if (value.is_number() && pointer != "/format" && pointer != "/version" && pointer.rfind("/sources", 0) != 0)
      numbers.insert(pointer.substr(0, pointer.rfind("/0")));
    for (const auto& item : value.items())
      if (value.is_structured()) walk(item.value(), pointer + "/" + item.key());
  };
  walk(json, "");
  ASSERT_GT(numbers.size(), 50u);

  std::set<std::string> documented;
  for (const Provenance& entry : device->provenance) {
    EXPECT_TRUE(documented.insert(entry.pointer).second) << entry.pointer << " twice";
    const Json& source = json["sources"][json.at(Pointer(entry.pointer))[1].get<std::string>()];
    EXPECT_EQ(entry.source, source["text"]);
    EXPECT_EQ(entry.confidence, source["confidence"]);
    EXPECT_FALSE(entry.source.empty());
    EXPECT_EQ(entry.value, json.at(Pointer(entry.pointer))[0].get<double>());
    EXPECT_LE(entry.low, entry.value);
    EXPECT_GE(entry.high, entry.value);
    const bool sure = entry.confidence == "documented" || entry.confidence == "measured";
    EXPECT_TRUE(!sure || source.contains("range") || entry.low == entry.high) << entry.pointer;
  }
  EXPECT_EQ(documented, numbers);
}

INSTANTIATE_TEST_SUITE_P(devices, Shipped,
                         testing::Values("ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

TEST(device, the_folder_has_only_descriptions_that_are_tested) {
  std::set<std::string> stems;
  for (const auto& entry : std::filesystem::directory_iterator(directory)) stems.insert(entry.path().stem().string());
  EXPECT_EQ(stems, (std::set<std::string>{"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}));
}

// A device's own log need not be public: its description names it as it lies.
TEST(device, what_is_measured_may_stand_in_a_log) {
  Json json = description("ascend-a2-like");
  json["sources"]["clock"] = {{"confidence", "measured"}, {"text", "log:PipeUtilization.csv: 24 cores"}};
  const auto device = parse_device(json.dump());
  ASSERT_TRUE(device) << device.error().message();
  json["sources"]["clock"]["confidence"] = "documented";
  EXPECT_FALSE(parse_device(json.dump())) << "what is documented is public";
}

TEST(device, what_a_host_costs_may_be_left_out) {
  Json json = description("ascend-a2-like");
  EXPECT_EQ(parse_device(json.dump())->host.launch_us, 5.9);
  EXPECT_EQ(parse_device(json.dump())->host.dispatch_us, 1);
  EXPECT_EQ(parse_device(json.dump())->host.sync_us, 10);
  json.erase("host");
  json["sources"].erase("launch");
  json["sources"].erase("line");
  const auto without = parse_device(json.dump());
  ASSERT_TRUE(without) << without.error().message();
  EXPECT_EQ(without->host.launch_us, 0);
}

// A device of a memory that others share: what it draws, and what it draws where others leave a part of the memory.
TEST(device, an_agent_draws_a_part_of_its_memory) {
  Json json = description("hexagon-htp-like");
  const auto hexagon = parse_device(json.dump());
  ASSERT_TRUE(hexagon) << hexagon.error().message();
  EXPECT_EQ(hexagon->memory_bytes_per_cycle, 28.4);
  EXPECT_EQ(hexagon->dram_bytes_per_cycle, 20.1);
  EXPECT_EQ(hexagon->dram_at_share(1), 20.1);
  EXPECT_EQ(hexagon->dram_at_share(0.75), 20.1) << "three quarters are more than it can draw";
  EXPECT_EQ(hexagon->dram_at_share(0.5), 14.2);
  json["dram"].erase("bytes_per_cycle_agent");
  const auto alone = parse_device(json.dump());
  ASSERT_TRUE(alone) << alone.error().message();
  EXPECT_EQ(alone->dram_bytes_per_cycle, 28.4) << "without the key all of it is the device's";
  EXPECT_EQ(alone->dram_at_share(0.75), 28.4 * 0.75);
}

TEST(device, figures_arrive_where_they_belong) {
  const auto a2 = load_device(directory / "ascend-a2-like.json");
  ASSERT_TRUE(a2);
  EXPECT_EQ(a2->memory(Space::staging).bytes, 512u * 1024);
  EXPECT_EQ(a2->memory(Space::left).bytes, 64u * 1024);
  EXPECT_EQ(a2->memory(Space::accumulator).bytes, 128u * 1024);
  EXPECT_EQ(a2->memory(Space::vector).bytes, 192u * 1024);
  EXPECT_EQ(a2->memory(Space::vector).align, 32u);
  EXPECT_EQ(a2->sync.flags, 8u);
  ASSERT_EQ(a2->streams.size(), 2u);
  EXPECT_EQ(a2->streams[1].count, 2u);  // vector cores
  EXPECT_EQ(a2->sync.stream_flags, 11u);
  EXPECT_EQ(a2->sync.stream_depth, 15u);
  EXPECT_TRUE(a2->sync.wait_stops_stream);
  for (Pipe pipe : {Pipe::load, Pipe::feed, Pipe::matrix, Pipe::drain}) EXPECT_EQ(a2->stream_of(pipe), 0);
  for (Pipe pipe : {Pipe::load_vector, Pipe::vector, Pipe::store}) EXPECT_EQ(a2->stream_of(pipe), 1);
  EXPECT_EQ(a2->stream_of(Space::accumulator), 0);
  EXPECT_EQ(a2->stream_of(Space::vector), 1);
  ASSERT_NE(a2->rate(DType::i8, DType::i32), nullptr);
  EXPECT_EQ(a2->rate(DType::i8, DType::i32)->k, 32u);
  EXPECT_EQ(a2->path(Space::accumulator, Space::vector), nullptr);  // through global memory only
  ASSERT_NE(a2->path(Space::accumulator, Space::global), nullptr);
  EXPECT_TRUE(a2->path(Space::accumulator, Space::global)->dram);
  EXPECT_FALSE(a2->path(Space::staging, Space::left)->dram);
  EXPECT_NE(a2->queue_of[static_cast<int>(Pipe::load)], a2->queue_of[static_cast<int>(Pipe::load_vector)]);
  EXPECT_FALSE(a2->matrix.systolic);
  ASSERT_NE(a2->rate(DType::i4, DType::i32), nullptr);
  EXPECT_EQ(a2->rate(DType::i4, DType::i32)->k, 64u);
  ASSERT_NE(a2->drain(DType::i32, DType::f16), nullptr);
  EXPECT_EQ(a2->drain(DType::i32, DType::f16)->scales, DrainScales::columns);
  EXPECT_EQ(a2->drain(DType::i32, DType::f32), nullptr);
  EXPECT_EQ(a2->l2.bytes, 192u << 20);
  EXPECT_GT(a2->l2.bytes_per_cycle, 3 * a2->dram_bytes_per_cycle);
  EXPECT_TRUE(a2->l2.hints);
  EXPECT_EQ(a2->scalar.line, 64u);
  EXPECT_EQ(a2->vector.align, 32u);
  EXPECT_EQ(a2->sync.unit_flag_bytes, 512u);
  EXPECT_EQ(a2->queues[a2->queue_of[static_cast<int>(Pipe::load)]].outstanding, 8u);
  EXPECT_FALSE(a2->turns(true)) << "rows of a transposed B are its columns";
  EXPECT_TRUE(a2->turns(false));
  EXPECT_TRUE(a2->path(Space::global, Space::staging)->nd2nz.legal);
  EXPECT_FALSE(a2->path(Space::global, Space::vector)->nd2nz.legal);
  EXPECT_GT(a2->path(Space::staging, Space::right)->turn.bytes_per_cycle, 0);
  EXPECT_EQ(a2->path(Space::global, Space::staging)->nd2nz_extra(), 1) << "half the peak";

  const auto hexagon = load_device(directory / "hexagon-htp-like.json");
  ASSERT_TRUE(hexagon);
  EXPECT_TRUE(hexagon->streams.empty());
  EXPECT_TRUE(hexagon->same_memory(Space::staging, Space::vector));
  EXPECT_FALSE(hexagon->same_memory(Space::staging, Space::accumulator));
  EXPECT_EQ(hexagon->l2.bytes, 0u);
  EXPECT_EQ(hexagon->vector.bytes, 128u);
  EXPECT_DOUBLE_EQ(hexagon->vector.cost[static_cast<int>(VectorOp::add)].slope, 0.25);
  EXPECT_DOUBLE_EQ(hexagon->compile.fixed_ms, 152);
  ASSERT_NE(hexagon->drain(DType::f32, DType::f16), nullptr);
  EXPECT_TRUE(hexagon->drain(DType::f32, DType::f16)->bias);
  EXPECT_DOUBLE_EQ(hexagon->vector.cost[static_cast<int>(VectorOp::pack_nz)].slope, 0.5);

  const auto systolic = load_device(directory / "systolic128.json");
  ASSERT_TRUE(systolic);
  EXPECT_TRUE(systolic->matrix.systolic);
  EXPECT_EQ(systolic->matrix.rows, 128u);
  EXPECT_EQ(systolic->matrix.columns, 128u);
  EXPECT_EQ(systolic->matrix.arrays, 4u);
  EXPECT_EQ(systolic->matrix.preload, Preload::pipelined);
  EXPECT_EQ(systolic->matrix.dataflow, Dataflow::weight_stationary);
  EXPECT_TRUE(systolic->vector.cost[static_cast<int>(VectorOp::sort)].available);

  const auto gemmini = load_device(directory / "systolic32.json");
  ASSERT_TRUE(gemmini);
  EXPECT_FALSE(gemmini->vector.cost[static_cast<int>(VectorOp::sort)].available);  // its host sorts
}

}  // namespace
}  // namespace inlay::npu
