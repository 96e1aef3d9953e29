// A log that went through its text (docs/npu_import.md) is the log that it was: our own programs' runs, as they are and
// with a line of sync left out, are written, read, checked and timed, beside the same without the text. So what is said
// of somebody's kernel is what would be said of it as a program of the machine.
#include <gtest/gtest.h>

#include <array>
#include <sstream>

#include "shapes/add.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/linear.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/sampling.hpp"
#include "tests/npu/programs/small_problems.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/placement.hpp"
#include "tile_machine/events/log_file.hpp"
#include "tile_machine/time/roofline.hpp"
#include "tile_machine/time/trace.hpp"

namespace inlay::npu {

Program program(GlobalMemory&, const Add<Host>&, const Choices&);
Program program(GlobalMemory&, const RmsNorm<Host>&, const Choices&);
Program program(GlobalMemory&, const Linear<Host>&, const Choices&);
Program program(GlobalMemory&, const IncreFlashAttention<Host>&, const Choices&);
Program program(GlobalMemory&, const Sampling<Host>&, const Choices&);

namespace test {
namespace {

std::string place(const Place& of) {
  return line_of(of.site) + ":" + std::to_string(of.site.column()) + " core " + std::to_string(of.core) + " stream " +
         std::to_string(of.stream) + " " + std::string(name(of.pipe)) + " entry " + std::to_string(of.entry);
}

std::vector<std::string> words(const std::vector<Report>& reports) {
  std::vector<std::string> all;
  for (const Report& report : reports)
    all.push_back(std::string(name(report.kind)) + " x" + std::to_string(report.repeated) + ": " + report.message +
                  "; " + place(report.first) + "; " + place(report.second) + "; " + report.missing);
  return all;
}

std::vector<Tick> ticks(const Timeline& timeline) {
  std::vector<Tick> all{timeline.makespan};
  for (const Span& span : timeline.spans) all.insert(all.end(), {span.issued, span.started, span.ended});
  return all;
}

tl::expected<LogFile, Status> by_text(const EventLog& log, const Device& device) {
  std::istringstream text(log_text(log, device, "ours"));
  return read_log(text, device);
}

// What is found and how long it takes, both ways. The number of reports.
std::size_t expect_same(const EventLog& log, const Device& device, const std::string& where) {
  const auto file = by_text(log, device);
  if (!file) return ADD_FAILURE() << where << ": " << file.error().message(), 0;
  const std::vector<Report> direct = check(log, device);
  EXPECT_EQ(words(check(file->log, device)), words(direct)) << where;
  EXPECT_EQ(words(redundant_syncs(file->log, device)), words(redundant_syncs(log, device))) << where;
  const auto ours = time_events(log, device), theirs = time_events(file->log, device);
  EXPECT_EQ(ours.has_value(), theirs.has_value()) << where;
  if (!ours || !theirs) return direct.size();
  EXPECT_EQ(ticks(*theirs), ticks(*ours)) << where;
  EXPECT_EQ(summary(file->log, device, *theirs), summary(log, device, *ours)) << where;
  return direct.size();
}

std::vector<Device> devices() {
  std::vector<Device> all;
  for (const char* name : {"ascend-a2-like", "hexagon-htp-like", "systolic32", "systolic128"}) {
    auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
    EXPECT_TRUE(device) << device.error().message();
    if (device) all.push_back(*std::move(device));
  }
  for (Device& device : all) device.cores = std::min(device.cores, 2u);
  return all;
}

TEST(ImportedLogs, OurOwnProgramsAreCheckedAndTimedAsWithoutTheText) {
  const std::vector<Problem> problems = {
      problem("add", AddShape{.rows = 9, .dim = 1500}),
      problem("rms_norm", RmsNormShape{.rows = 29, .dim = 768, .weight = DType::f16}),
      problem("linear", LinearShape{.m = 20, .n = 72, .k = 160}),
      problem("incre_flash_attention",
              IncreFlashAttentionShape{.sequences = 2, .heads = 4, .kv_heads = 2, .dim = 64, .length = 300}),
      problem("sampling", SamplingShape{.rows = 3, .vocab = 1000})};
  for (const Device& device : devices())
    for (const Problem& program : problems) {
      const std::string where = program.name + " on " + device.name;
      const Outcome outcome = program.run(device, {}).outcome;
      EXPECT_GT(outcome.log.entries.size(), 20u) << where;
      EXPECT_EQ(expect_same(outcome.log, device, where), 0u) << where;
      // What the machine sees to at each verb is so.
      EXPECT_EQ(words(misplaced(outcome.log, device)), std::vector<std::string>{}) << where;
    }
}

TEST(ImportedLogs, ALineOfSyncThatIsMissingIsReportedInTheSameWords) {
  const std::vector<Problem> problems = {
      problem("add", AddShape{.rows = 9, .dim = 1500}),
      problem("rms_norm", RmsNormShape{.rows = 29, .dim = 768, .weight = DType::f16})};
  std::size_t reported = 0;
  for (const Device& device : devices())
    for (const Problem& program : problems) {
      const auto points = program.run(device, {}).outcome.points;
      std::array<std::uint32_t, mutation_kinds> index{};
      for (const MutationPoint& point : points) {
        Options options;
        options.mutation = Mutation{point.kind, index[static_cast<std::size_t>(point.kind)]++};
        const std::string where =
            program.name + " on " + device.name + " without " + point.verb + " at " + line_of(point.site);
        reported += expect_same(program.run(device, options).outcome.log, device, where) > 0;
      }
    }
  EXPECT_GT(reported, 40u);
}

}  // namespace
}  // namespace test
}  // namespace inlay::npu
