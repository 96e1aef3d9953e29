// Event logs of kernels: what is refused is refused by its line, what is taken is checked and timed to the end.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sstream>

#include "tests/fuzz/support/json_tree.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/check/checker.hpp"
#include "tile_machine/check/placement.hpp"
#include "tile_machine/events/log_file.hpp"
#include "tile_machine/time/roofline.hpp"

// One line is another, goes, comes twice, or has other values.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  if (random() % 8 == 0) return LLVMFuzzerMutate(data, size, max_size);
  std::vector<std::string> lines;
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  if (lines.empty()) return LLVMFuzzerMutate(data, size, max_size);
  const std::size_t which = random() % lines.size();
  switch (random() % 4) {
    case 0: lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(which)); break;
    case 1: lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(which), lines[random() % lines.size()]); break;
    default: {
      std::string& line = lines[which];
      const std::size_t bytes = line.size();
      line.resize(bytes + 256);
      line.resize(inlay::fuzz::mutate_json(reinterpret_cast<std::uint8_t*>(line.data()), bytes, line.size(),
                                           static_cast<unsigned>(random()), 4));
    }
  }
  // The last line counts the others: a log whose count is wrong says nothing of what is behind.
  if (random() % 8 != 0 && lines.size() > 1 && lines.back().find("\"end\"") != std::string::npos)
    lines.back() = R"({"event": "end", "events": )" + std::to_string(lines.size() - 2) + "}";
  std::string changed;
  for (const std::string& line : lines) changed += line + "\n";
  if (changed.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, changed.data(), changed.size());
  return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inlay::npu;
  static const auto device = load_device(inlay::test::source_path("tile_machine/devices/ascend-a2-like.json"));
  if (!device) inlay::fuzz::broken_promise(device.error().message());
  std::istringstream text(std::string(reinterpret_cast<const char*>(data), size));
  const auto file = read_log(text, *device);
  if (!file) {
    inlay::fuzz::expect_clean(file.error(), "line ");
    return 0;
  }
  const EventLog& log = file->log;
  (void)misplaced(log, *device);
  (void)check(log, *device);
  (void)redundant_syncs(log, *device);
  if (const auto timeline = time_events(log, *device)) (void)summary(log, *device, *timeline);
  const std::string once = log_text(log, *device, file->kernel);
  std::istringstream written(once);
  const auto again = read_log(written, *device);
  if (!again) inlay::fuzz::broken_promise("what was read is written and read: " + std::string(again.error().message()));
  if (log_text(again->log, *device, again->kernel) != once)
    inlay::fuzz::broken_promise("a text is read as it was written");
  return 0;
}
