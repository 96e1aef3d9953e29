// What a stop string lets through does not depend on how the text was cut.
#include <random>

#include <inlay/exec/stop_strings.hpp>

#include <gtest/gtest.h>

namespace inlay::exec {
namespace {

// By the definition: up to the string whose last byte comes first, and of two that end there before the longer one.
std::string expected(const std::string& text, const std::vector<std::string>& strings) {
  for (std::size_t end = 1; end <= text.size(); ++end) {
    std::size_t longest = 0;
    for (const std::string& each : strings)
      if (text.substr(0, end).ends_with(each)) longest = std::max(longest, each.size());
    if (longest > 0) return text.substr(0, end - longest);
  }
  return text;
}

TEST(StopStrings, end_a_text_however_it_is_cut) {
  std::mt19937 rng(3);
  int stopped = 0;
  for (int round = 0; round < 4000; ++round) {
    const auto drawn = [&](std::size_t length) {
      std::string text;
      while (text.size() < length) text += "ab\n"[rng() % 3];
      return text;
    };
    std::vector<std::string> strings;
    for (std::size_t count = rng() % 4; strings.size() < count;) strings.push_back(drawn(1 + rng() % 5));
    const std::string text = drawn(rng() % 20);
    auto stops = StopStrings::make(strings);
    ASSERT_TRUE(stops);
    std::string out;
    for (std::size_t at = 0; at < text.size() && !stops->stopped();) {
      const std::size_t length = 1 + rng() % 4;
      out += stops->push(std::string_view(text).substr(at, length));
      at += length;
      // Nothing is held back that no string begins with.
      if (strings.empty()) {
        ASSERT_EQ(out.size(), std::min(at, text.size()));
      }
    }
    if (!stops->stopped()) out += stops->finish();
    ASSERT_EQ(out, expected(text, strings)) << text;
    ASSERT_EQ(stops->stopped(), out.size() < text.size());
    stopped += stops->stopped();
  }
  EXPECT_GT(stopped, 500);
}

TEST(StopStrings, an_empty_one_is_refused) {
  const auto stops = StopStrings::make({"a", ""});
  ASSERT_FALSE(stops);
  EXPECT_NE(stops.error().message().find("''"), std::string_view::npos);
}

}  // namespace
}  // namespace inlay::exec
