// The ONNX node tests of ../shared/data on every backend and level, and the support table that says
// which of them are skipped.
#include "tools/verify.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/backends.hpp"

namespace inlay::tools {
namespace {

namespace fs = std::filesystem;

const fs::path cases = test::third_party("onnx_node");

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// Skipped cases by name; every other case must pass.
std::map<std::string, std::string> skipped(exec::Eager run) {
  std::map<std::string, std::string> result;
  const auto directories = find_cases({cases.string()});
  EXPECT_TRUE(directories.has_value());
  EXPECT_GT(directories->size(), 100u);
  for (const std::string& directory : *directories) {
    const std::string name = fs::path(directory).filename().string();
    const auto verdict = verify_case(run, directory);
    EXPECT_TRUE(verdict.has_value()) << name;
    if (!verdict) continue;
    EXPECT_NE(verdict->kind, Verdict::Kind::fail) << name << ' ' << verdict->detail;
    if (verdict->kind == Verdict::Kind::skip) result[name] = verdict->detail;
  }
  return result;
}

TEST(verify, every_backend_passes_and_skips_what_the_table_declares) {
  INLAY_NEEDS_DATA("onnx_node");
  // Rows of the table: | `test_name` | reason |
  std::map<std::string, std::string> declared;
  std::stringstream page(text_of(fs::path(INLAY_SOURCE_DIR) / "docs" / "support_table.md"));
  for (std::string line; std::getline(page, line);) {
    if (line.rfind("| `test_", 0) != 0) continue;
    const std::size_t end = line.find('`', 3), reason = line.find("| ", end) + 2;
    declared[line.substr(3, end - 3)] = line.substr(reason, line.rfind(" |") - reason);
  }
  EXPECT_EQ(skipped(exec::Eager(Reference{})), declared);
  for (Isa isa : available_isas()) {
    SCOPED_TRACE(name(isa));
    EXPECT_EQ(skipped(exec::Eager(Cpu(isa))), declared);
  }
}

TEST(verify, attention_rope_norm_softmax_and_swiglu_are_not_skipped) {
  INLAY_NEEDS_DATA("onnx_node");
  for (const auto& [name, reason] : skipped(exec::Eager(Cpu())))
    for (const char* covered : {"test_attention", "test_rotary", "test_rms", "test_softmax", "test_swiglu", "test_gelu",
                                "test_matmulinteger", "test_tensorscatter"})
      EXPECT_NE(name.rfind(covered, 0), 0u) << name << ": " << reason;
}

// Wrong input: one line, exit code 2, never a crash.
TEST(verify, wrong_input_is_one_line) {
  exec::Eager run{Cpu()};
  std::stringstream out, errors;
  EXPECT_EQ(verify(run, {"/nowhere"}, out, errors), 2);
  EXPECT_EQ(errors.str(), "inlay: /nowhere: not a directory\n");
  const fs::path empty = fs::temp_directory_path() / ("inlay_verify_" + std::to_string(::getpid()));
  fs::create_directories(empty);
  EXPECT_EQ(verify(run, {empty.string()}, out, errors), 2);
  fs::remove_all(empty);
}

TEST(verify, corrupt_files_are_refused) {
  INLAY_NEEDS_DATA("onnx_node");
  const fs::path copy = fs::temp_directory_path() / ("inlay_verify_corrupt_" + std::to_string(::getpid()));
  exec::Eager run{Cpu()};
  for (const char* name : {"test_attention_3d_gqa_causal", "test_matmulinteger", "test_quantizelinear_axis"}) {
    for (const char* file : {"model.onnx", "test_data_set_0/input_0.pb", "test_data_set_0/output_0.pb"}) {
      fs::remove_all(copy);
      fs::copy(cases / name, copy, fs::copy_options::recursive);
      fs::permissions(copy, fs::perms::owner_all);
      const std::string whole = text_of(cases / name / file);
      for (std::size_t cut = 0; cut < whole.size(); cut += 1 + whole.size() / 23)
        for (bool flip : {false, true}) {
          std::string broken = flip ? whole : whole.substr(0, cut);
          if (flip) broken[cut] = static_cast<char>(broken[cut] ^ 0x55);
          fs::remove(copy / file);
          std::ofstream(copy / file, std::ios::binary) << broken;
          // Any verdict or refusal will do, as long as there is one.
          const auto verdict = verify_case(run, copy.string());
          EXPECT_TRUE(verdict || !verdict.error().message().empty()) << file << ' ' << cut;
        }
    }
  }
  fs::remove_all(copy);
}

}  // namespace
}  // namespace inlay::tools
