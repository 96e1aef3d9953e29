#include <inlay/exec/convert.hpp>
#include <inlay/exec/tokenizer.hpp>

#include <gtest/gtest.h>

#include <filesystem>
#include <iostream>

namespace inlay::exec::test {
namespace {

const std::string data = INLAY_SOURCE_DIR "/../shared/data/";

TEST(convert, stories260K) {
  const std::string out = testing::TempDir() + "load_stories.gguf";
  const auto report = convert_llama2c(data + "stories260K/stories260K.bin", data + "stories260K/tok512.bin", out);
  ASSERT_TRUE(report) << report.error().message();
  const auto file = load_model(out);
  ASSERT_TRUE(file) << file.error().message();
  for (const char* f : {"int8", "q8_0", "q4_0", "f16", "bf16"}) {
    const auto r = convert(out, testing::TempDir() + "load_stories_" + f + ".gguf", {*parse_weight_format(f)});
    ASSERT_TRUE(r) << r.error().message();
    for (auto& n : r->notes) std::cout << n << "\n";
    const auto file = load_model(testing::TempDir() + "load_stories_" + f + ".gguf");
    ASSERT_TRUE(file) << file.error().message();
  }
}

}  // namespace
}  // namespace inlay::exec::test
