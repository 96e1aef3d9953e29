// Replays what fuzzing the loader of device descriptions found worth keeping (tests/fuzz/device.cpp),
// and cuts and flips of it, under whatever compiler and sanitizers this build has.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "tests/fuzz/support/device_promise.hpp"
#include "tests/support/source_dir.hpp"
#include "tile_machine/tests/device/files.hpp"

namespace inlay::npu {
namespace {

TEST(device_corpus, every_text_is_read_or_refused_as_promised) {
  int refused = 0;
  for (const auto& entry : std::filesystem::directory_iterator(inlay::test::source_path("tests/fuzz/corpus/device"))) {
    const std::string text = text_of(entry.path());
    EXPECT_EQ(broken_promise(text), "") << entry.path();
    if (!parse_device(text)) ++refused;
  }
  EXPECT_GE(refused, 20);
}

TEST(device_corpus, so_is_each_description_with_one_byte_changed_or_gone) {
  constexpr std::size_t step = 7;  // a prime, so that the four files are hit at unlike places
  for (const auto& entry : std::filesystem::directory_iterator(inlay::test::source_path("tile_machine/devices"))) {
    const std::string text = text_of(entry.path());
    for (std::size_t at = 0; at < text.size(); at += step) {
      std::string changed = text;
      changed[at] = static_cast<char>(changed[at] ^ (1 << (at % 8)));
      EXPECT_EQ(broken_promise(changed), "") << entry.path() << " with byte " << at << " changed";
      changed = text;
      changed.erase(at, 1);
      EXPECT_EQ(broken_promise(changed), "") << entry.path() << " without byte " << at;
    }
  }
}

}  // namespace
}  // namespace inlay::npu
