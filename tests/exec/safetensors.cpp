#include <inlay/exec/load.hpp>

#include <gtest/gtest.h>

namespace inlay::exec::test {
namespace {

const std::string data = INLAY_SOURCE_DIR "/../shared/data/";

TEST(safetensors, tiny) {
  for (const char* name : {"tiny_llama3", "tiny_qwen3"}) {
    const auto file = load_model(data + "tiny_models/" + name);
    ASSERT_TRUE(file) << file.error().message();
  }
}

}  // namespace
}  // namespace inlay::exec::test
