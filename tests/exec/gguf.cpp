#include <inlay/exec/load.hpp>

#include <gtest/gtest.h>

#include <filesystem>

namespace inlay::exec::test {
namespace {

const std::string data = INLAY_SOURCE_DIR "/../shared/data/";

TEST(gguf, tiny_llama) {
  const auto file = load_model(data + "tiny_models/llama-2-tiny-random/llama-2-tiny-random.gguf");
  ASSERT_TRUE(file) << file.error().message();
}
}  // namespace
}  // namespace inlay::exec::test
