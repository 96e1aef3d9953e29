// Files that are written whole, and JSON with limits. Descriptions of devices and tuning files test the rest of it.
#include <gtest/gtest.h>

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "files/strict_json.hpp"
#include "files/whole_file.hpp"

namespace inlay::files {
namespace {

namespace fs = std::filesystem;

class WholeFile : public ::testing::Test {
 protected:
  WholeFile() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~WholeFile() override { fs::remove_all(folder_); }

  static std::string content(const fs::path& file) {
    std::ifstream stream(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  }
  std::size_t entries() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
  }

  const fs::path folder_ = fs::temp_directory_path() / ("inlay_whole_file." + std::to_string(getpid()));
  const fs::path file_ = folder_ / "a";
};

TEST_F(WholeFile, takes_the_place_of_the_old_one) {
  ASSERT_TRUE(write_whole(file_, "a longer text").ok());
  ASSERT_TRUE(write_whole(file_, std::string_view("short\0.", 7)).ok());
  EXPECT_EQ(content(file_), std::string("short\0.", 7));
  EXPECT_EQ(entries(), 1u);
}

// The writer sees the old file beside what it writes, and a failure leaves that one alone.
TEST_F(WholeFile, a_failure_leaves_the_old_one) {
  ASSERT_TRUE(write_whole(file_, "old").ok());
  const Status status = write_whole(file_, [&](std::FILE* out) {
    std::fputs("half of the n", out);
    std::fflush(out);
    EXPECT_EQ(content(file_), "old");
    EXPECT_EQ(entries(), 2u);
    return Status(StatusCode::corrupt_data, "no more of it");
  });
  EXPECT_EQ(status.code(), StatusCode::corrupt_data);
  EXPECT_EQ(content(file_), "old");
  EXPECT_EQ(entries(), 1u);
  const Status nowhere = write_whole(folder_ / "no folder" / "a", "text");
  EXPECT_EQ(nowhere.code(), StatusCode::not_found);
  EXPECT_NE(nowhere.message().find("cannot be written: No such file"), std::string::npos) << nowhere.message();
}

TEST_F(WholeFile, a_link_stays_and_leads_to_the_new_one) {
  ASSERT_TRUE(write_whole(file_, "old").ok());
  fs::create_symlink(file_, folder_ / "link");
  ASSERT_TRUE(write_whole(folder_ / "link", "new").ok());
  EXPECT_TRUE(fs::is_symlink(folder_ / "link"));
  EXPECT_EQ(content(file_), "new");
}

// A device keeps its name: /dev/null that root writes stays what it was, and what does not fit is told.
TEST_F(WholeFile, a_device_is_written_as_it_is) {
  EXPECT_TRUE(write_whole("/dev/null", "text").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const Status full = write_whole("/dev/full", "text");
  EXPECT_EQ(full.code(), StatusCode::internal);
  EXPECT_NE(full.message().find("/dev/full cannot be written: No space"), std::string::npos) << full.message();
}

TEST(StrictJson, keeps_to_its_limits) {
  const JsonLimits limits{.bytes = 30, .depth = 2, .values = 4};
  const auto message = [&](std::string_view text) {
    const auto json = parse_strict_json(text, limits);
    const auto ordered = parse_strict_ordered_json(text, limits);
    EXPECT_EQ(json.has_value(), ordered.has_value());
    return json ? std::string() : std::string(json.error().message());
  };
  EXPECT_EQ(message(R"({"b": [1, 2], "a": 1})"), "/a is value number 5: there must be at most 4");
  EXPECT_EQ(message(R"({"b": [1], "a": 1})"), "");
  EXPECT_EQ(message(R"({"b": [[]]})"), "/b/0 is nested 3 deep: it must be at most 2");
  EXPECT_EQ(message(R"({"b": 1, "b": 1})"), "/b stands twice: a key must be unique");
  EXPECT_EQ(message(std::string(31, ' ')), "/ has 31 bytes: it must have at most 30");
  EXPECT_NE(message(R"({"b": 1,})").find("must be JSON"), std::string::npos);
  EXPECT_EQ(parse_strict_ordered_json(R"({"b": 1, "a": 2})", limits)->begin().key(), "b");
}

}  // namespace
}  // namespace inlay::files
