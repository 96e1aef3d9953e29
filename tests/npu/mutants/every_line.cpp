// The operators' sources against what the mutation suites run: each line that puts work or sync into a queue is one of
// some small program's.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iostream>
#include <regex>
#include <set>
#include <string>

#include "tests/npu/programs/small_attention.hpp"
#include "tests/npu/programs/small_caches.hpp"
#include "tests/npu/programs/small_linear.hpp"
#include "tests/npu/programs/small_rows.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu::test {
namespace {

namespace fs = std::filesystem;

std::set<std::string> lines_that_ran() {
  std::set<std::string> lines;
  const auto run = [&](const std::vector<Device>& devices, const std::vector<Problem>& programs) {
    for (const Device& device : devices)
      for (const Problem& program : programs)
        for (const MutationPoint& point : program.run(device, {}).outcome.points) lines.insert(line_of(point.site));
  };
  run(devices_for_attention(), small_attention());
  run({small_array()}, small_attention_on_an_array());
  run(small_devices(), small_caches());
  run(devices_for_linear(), small_linear());
  run(small_devices(), small_rows());
  return lines;
}

// Rings by the names that a source and its header give them.
std::set<std::string> rings_of(const std::string& text) {
  static const std::regex declared(R"(Ring(?:<\d>)?>?\s+(\w+(?:, \w+)*)|auto (\w+) =\s+core_?\.ring)");
  std::set<std::string> names;
  for (std::sregex_iterator found(text.begin(), text.end(), declared), end; found != end; ++found) {
    const std::string list = (*found)[1].matched ? (*found)[1] : (*found)[2];
    for (std::size_t at = 0; at != std::string::npos;) {
      const std::size_t comma = list.find(", ", at);
      names.insert(list.substr(at, comma - at));
      at = comma == std::string::npos ? comma : comma + 2;
    }
  }
  return names;
}

std::string text_of(const fs::path& path) {
  std::ifstream stream(path);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// What tiny shapes do not reach, and what needs no order: by the words of the line.
const std::set<std::string> exceptions = {
    // heads of no element
    "tokens.cpp: core_.vfill(column(peaks_, all.rows()), 0);",
    "tokens.cpp: core_.vfill(column(probes_, all.rows()), 0);",
    // no more items than slots
    "products.cpp: makers.left(a.acquire());",
    "products.cpp: flags_.acquire();",
    "sampling.cpp: const auto partial = out_.acquire();",
    "choose.hpp: const Tensor counts = counts_.acquire().slice(0, 1, 0, op_.experts());",
};

TEST(EveryLine, OfTheOperatorsProgramsIsMutated) {
  static const std::regex verb(
      R"(\bcore_?\.(copy|nd2nz|mma|drain|load_a|load_b|gather_blocks|v(?!ector)[a-z_]+|set|wait|barrier_all|sync_all)\()");
  static const std::regex sync(R"(\b(\w+)(?:\.|->)(acquire|commit|wait|release)\(\))");
  const std::set<std::string> ran = lines_that_ran();
  int lines = 0, excepted = 0;
  for (const auto& entry : fs::recursive_directory_iterator(inlay::test::source_path("npu_kernels"))) {
    const std::string path = entry.path().string();
    const auto in = [&](const char* room) { return path.find(std::string("/npu_kernels/") + room) != path.npos; };
    if (!entry.is_regular_file() || in("machine/") || in("backend/") || in("estimate/") || in("skeleton")) continue;
    fs::path header = entry.path();
    header.replace_extension(".hpp");
    const std::string source = text_of(entry.path());
    const std::set<std::string> rings = rings_of(source + text_of(header));
    std::istringstream stream(source);
    int number = 0;
    for (std::string line; std::getline(stream, line);) {
      ++number;
      line.erase(0, line.find_first_not_of(' '));
      std::smatch found;
      const bool puts =
          std::regex_search(line, verb) || (std::regex_search(line, found, sync) && rings.count(found[1].str()) > 0);
      if (!puts || line.rfind("//", 0) == 0) continue;
      ++lines;
      const std::string name = entry.path().filename().string();
      if (ran.count(name + ":" + std::to_string(number)) > 0) continue;
      EXPECT_EQ(exceptions.count(name + ": " + line), 1u) << name << ":" << number << ": " << line;
      ++excepted;
    }
  }
  std::cout << lines << " lines, " << excepted << " of them excepted\n";
  EXPECT_GT(lines, 850);
  EXPECT_EQ(excepted, static_cast<int>(exceptions.size())) << "an exception is none any more";
}

}  // namespace
}  // namespace inlay::npu::test
