// `inlay tune` as its users start it, and the commands and the file that docs/opencl.md shows.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <sstream>
#include <string>

#include <inlay/cl_tuning.hpp>

#include "tests/support/files.hpp"
#include "tests/support/inlay_program.hpp"
#include "tests/support/requirements.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::test {
namespace {

using exec::test::read_text, exec::test::TemporaryDirectory, exec::test::write_text;

class TuneCommand : public ::testing::Test {
 protected:
  struct Outcome {
    int code;
    std::string out, err;
    bool says(const std::string& word) const { return (out + err).find(word) != std::string::npos; }
  };

  void SetUp() override {
    const auto cl = Cl::make({.tuning = "none"});
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
  // In the folder, where `inlay` is on the path.
  Outcome shell(const std::string& line) const {
    const std::string program = std::filesystem::path(inlay::test::inlay_program).parent_path().string();
    const std::string command =
        "cd " + folder_.string() + " && export PATH=" + program + ":$PATH && { " + line + "\n} >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read_text(folder_ / "out"),
            read_text(folder_ / "err")};
  }
  // The block of docs/opencl.md that begins with ```<language> behind the heading Tuning.
  static std::string block(const std::string& language) {
    const std::string page = read_text(inlay::test::source_path("docs/opencl.md")), fence = "```" + language + "\n";
    const std::size_t section = page.find("## Tuning\n"), begin = page.find(fence, section);
    if (section == std::string::npos || begin == std::string::npos) return {};
    const std::size_t at = begin + fence.size();
    return page.substr(at, page.find("```", at) - at);
  }

  TemporaryDirectory folder_;
};

TEST_F(TuneCommand, the_commands_of_the_page_do_what_it_says) {
  std::istringstream lines(block("sh"));
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    SCOPED_TRACE(line);
    const Outcome outcome = shell(line);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    EXPECT_TRUE(outcome.err.empty()) << outcome.err;
    if (line.find("--list") != std::string::npos) {
      for (const ClParameter& p : cl_parameters())
        EXPECT_TRUE(outcome.says(std::string(p.op) + "." + std::string(p.name) + " ")) << p.op << '.' << p.name;
    } else if (!line.starts_with("INLAY_CL_TUNING")) {
      EXPECT_TRUE(outcome.says("add.")) << outcome.out;
      EXPECT_EQ(outcome.says("quantize."), line.find("quantize") != std::string::npos) << outcome.out;
      EXPECT_FALSE(outcome.says("dropped")) << outcome.out;
    } else {
      EXPECT_TRUE(outcome.says("of tuning.json, the others as compiled in")) << outcome.out;
    }
  }
  EXPECT_GE(count, 4);
}

TEST_F(TuneCommand, the_file_of_the_page_is_one) {
  write_text(folder_ / "page.json", block("json"));
  ASSERT_FALSE(read_text(folder_ / "page.json").empty());
  const Status status = check_cl_tuning(folder_ / "page.json");
  EXPECT_TRUE(status.ok()) << status.message();
}

TEST_F(TuneCommand, wrong_input_is_refused_before_anything_is_measured) {
  const auto expect_refused = [&](const std::string& arguments, std::initializer_list<const char*> words) {
    const Outcome outcome = shell("inlay tune " + arguments);
    EXPECT_EQ(outcome.code, 2) << arguments;
    EXPECT_TRUE(outcome.out.empty()) << outcome.out;
    EXPECT_EQ(outcome.err.rfind("inlay: ", 0), 0u) << outcome.err;
    for (const char* word : words) EXPECT_TRUE(outcome.says(word)) << outcome.err << word;
  };
  write_text(folder_ / "wrong.json", "{\"format\": 1, \"devices\": [7]}");
  expect_refused("--output wrong.json", {"wrong.json", "devices[0]", "7"});
  EXPECT_EQ(read_text(folder_ / "wrong.json"), "{\"format\": 1, \"devices\": [7]}");
  expect_refused("--output nowhere/tuning.json", {"nowhere"});
  expect_refused("--device nonsense", {"nonsense"});
  expect_refused("--op matmul", {"matmul", "rms_norm"});
  expect_refused("--shape npu", {"npu", "per_item", "per_group"});
  expect_refused("--seconds -1", {"seconds"});
  EXPECT_EQ(shell("inlay tune --help").code, 0);
  const Outcome devices = shell("INLAY_CL_TUNING=wrong.json inlay devices");
  EXPECT_TRUE(devices.says("none is usable: wrong.json: devices[0] is 7")) << devices.out;
}

}  // namespace
}  // namespace inlay::test
