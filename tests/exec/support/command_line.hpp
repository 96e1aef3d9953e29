// `inlay` as its users start it, in a folder that goes with the test.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "tests/support/inlay_program.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::test {

namespace fs = std::filesystem;

inline const fs::path source = source_dir;

struct Outcome {
  int code = -1;  // 128 + signal for a crash
  std::string out, err;
};

inline std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class CommandLine : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("inlay_command_line_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string file(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(file(name), std::ios::binary) << content;
    return file(name);
  }
  Outcome inlay(const std::string& arguments) const {
    const std::string command =
        std::string(inlay_program) + " " + arguments + " >" + file("out") + " 2>" + file("err") + " </dev/null";
    const int status = std::system(command.c_str());
    std::string err = read(file("err"));
    // AddressSanitizer's, of a program that has fibers.
    if (const std::size_t end = err.find('\n'); err.starts_with("==") && err.find("swapcontext") < end)
      err.erase(0, end + 1);
    return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), read(file("out")), std::move(err)};
  }
  // Wrong input: code 2, nothing on standard output, one line that holds the words.
  void expect_refused(const std::string& arguments, std::initializer_list<const char*> words = {}) const {
    const Outcome outcome = inlay(arguments);
    EXPECT_EQ(outcome.code, 2) << arguments << '\n' << outcome.err;
    EXPECT_TRUE(outcome.out.empty()) << arguments.substr(0, 80);
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << arguments << '\n' << outcome.err;
    EXPECT_EQ(outcome.err.rfind("inlay: ", 0), 0u) << outcome.err;
    for (const char* word : words) EXPECT_NE(outcome.err.find(word), std::string::npos) << outcome.err << word;
  }

  // Of a model over the text that its training held back, in windows of 128 tokens.
  double bits_per_byte(const std::string& model, const std::string& options) const {
    const Outcome outcome =
        inlay("eval " + model + " " + (source / "models/held_back.txt").string() + " --window 128 " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    double value = 0;
    EXPECT_EQ(std::sscanf(outcome.out.c_str(), "bits_per_byte: %lf", &value), 1) << outcome.out;
    return value;
  }

  fs::path folder_;
};

}  // namespace inlay::test
