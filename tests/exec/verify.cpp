// The ONNX node tests of ../shared/data on every backend and level, and the support table that says
// which of them are skipped.
#include "tools/onnx/verify.hpp"

#include <gtest/gtest.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "tests/support/backends.hpp"
#include "tests/support/source_dir.hpp"
#include "tools/onnx/node.hpp"

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
  std::stringstream page(text_of(fs::path(inlay::test::source_path("docs/support_table.md"))));
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
#ifdef INLAY_HAS_NPU
  for (const std::string_view device : npu_devices()) {
    SCOPED_TRACE(device);
    auto npu = Npu::make({.device = std::string(device)});
    ASSERT_TRUE(npu) << npu.error().message();
    EXPECT_EQ(skipped(exec::Eager(std::move(*npu), Cpu())), declared);
  }
#endif
#ifdef INLAY_HAS_CL
  for (ClShape shape : {ClShape::per_item, ClShape::per_group}) {
    SCOPED_TRACE(shape == ClShape::per_item ? "cl per-item shape" : "cl per-group shape");
    auto cl = Cl::make({.shape = shape});
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
    EXPECT_EQ(skipped(exec::Eager(std::move(*cl))), declared);
  }
#endif
}

TEST(verify, attention_rope_norm_softmax_and_swiglu_are_not_skipped) {
  INLAY_NEEDS_DATA("onnx_node");
  for (const auto& [name, reason] : skipped(exec::Eager(Cpu())))
    for (const char* covered : {"test_attention", "test_rotary", "test_rms", "test_softmax", "test_swiglu", "test_gelu",
                                "test_matmulinteger", "test_tensorscatter"})
      EXPECT_NE(name.rfind(covered, 0), 0u) << name << ": " << reason;
}

OnnxTensor zeros(std::vector<index> dims, DType type = DType::f32) { return OnnxTensor(type, std::move(dims)); }

OnnxNode node(const char* op_type, std::vector<std::optional<OnnxTensor>> inputs,
              std::map<std::string, std::variant<std::int64_t, double, std::string>> attributes = {}) {
  OnnxNode made;
  made.op_type = op_type, made.inputs = std::move(inputs), made.attributes = std::move(attributes);
  made.outputs = {true, true, true, true};
  return made;
}

std::string refusal(OnnxNode wrong) {
  exec::Eager run{Cpu()};
  const auto outputs = run_node(run, wrong);
  return outputs ? "it ran" : std::string(outputs.error().message());
}

// Each read outside a tensor, divided by zero or asked for all memory before nodes were checked.
TEST(verify, a_node_whose_inputs_do_not_fit_together_is_refused) {
  const auto has = [](OnnxNode wrong, const char* words) {
    const std::string reason = refusal(std::move(wrong));
    EXPECT_NE(reason.find(words), std::string::npos) << reason << " lacks " << words;
  };
  const OnnxTensor q = zeros({1, 2, 3, 4}), kv = zeros({1, 1, 5, 4}), none = zeros({1, 0, 5, 4});
  const std::optional<OnnxTensor> absent;
  has(node("Attention", {q, none, none}), "2 heads of Q for 0 of K");
  has(node("Attention", {q, kv, kv, absent, zeros({1, 5, 4}), kv}), "past_key has 3 dimensions");
  has(node("Attention", {q, kv, kv, absent, zeros({1, 1, 2, 4}), zeros({1, 1, 1, 4})}), "past_value has shape");
  has(node("Attention", {q, kv, kv, absent, zeros({1, 1, 2, 2}), zeros({1, 1, 2, 4})}), "past_key has shape");
  has(node("Attention", {q, kv, kv, absent, kv}), "come together");
  has(node("Attention", {q, kv, zeros({1, 1, 4, 4})}), "differ in heads or length");
  has(node("Attention", {q, kv, kv, zeros({2, 5})}), "attn_mask has shape [2, 5]");
  has(node("Attention", {q, kv, kv, zeros({3, 5}, DType::i64)}), "attn_mask must be");
  has(node("Attention", {q, kv, kv, zeros({})}), "attn_mask has 0 dimensions");
  has(node("Attention", {q, kv, kv}, {{"qk_matmul_output_mode", std::int64_t{4}}}), "qk_matmul_output_mode is 4");
  has(node("Attention", {zeros({1, 3, 8}), zeros({1, 5, 8}), zeros({1, 5, 8})}), "q_num_heads is 0");
  has(node("RotaryEmbedding", {zeros({1, 2, 3, 4}), zeros({}), zeros({})}), "cos_cache has shape []");
  has(node("RotaryEmbedding", {zeros({1, 2, 3, 4}), zeros({1, 3, 2}), zeros({1, 2, 2})}), "sin_cache has shape");
  has(node("RotaryEmbedding", {zeros({1, 2, 3, 4}), zeros({9, 2}), zeros({9, 2}), zeros({}, DType::i64)}),
      "position_ids has shape []");
  has(node("TensorScatter", {zeros({2, 1, 4, 3}), zeros({1, 1, 1, 3})}), "update has shape");
  has(node("TensorScatter", {zeros({2, 1, 4, 3}), zeros({2, 1, 1, 3}), zeros({1}, DType::i64)}),
      "write_indices has shape");
  OnnxTensor late = zeros({2}, DType::i64);
  late.set(0, 4);  // the next sequence's first slot
  has(node("TensorScatter", {zeros({2, 1, 4, 3}), zeros({2, 1, 1, 3}), late}), "4.000000 at 0; it must be 0 to 3");
  has(node("RMSNormalization", {zeros({2, 3}), zeros({4})}), "scale has shape [4]");
  has(node("Softmax", {zeros({2, 3})}, {{"axis", INT64_MIN}}), "axis is -9223372036854775808 of 2");
  has(node("ArgMax", {zeros({3, 0})}, {{"axis", std::int64_t{1}}}), "x has shape [3, 0]; its axis must have");
  has(node("Gather", {zeros({}), zeros({2}, DType::i64)}), "axis is 0 of 0 dimensions");
  has(node("MatMul", {zeros({2, 3}), zeros({})}), "product of a scalar");
  has(node("MatMulInteger", {zeros({2, 3}, DType::u8), zeros({3, 4}, DType::u8), zeros({3}, DType::u8)}),
      "a_zero_point has 3 elements; it must have 1 or 2");
  has(node("DequantizeLinear", {zeros({4, 3}, DType::i8), zeros({3}), zeros({}, DType::i8)}),
      "the zero point has shape");
  has(node("DequantizeLinear", {zeros({4, 6}, DType::i8), zeros({2, 2})}, {{"block_size", std::int64_t{2}}}),
      "the scale has shape [2, 2]; it must be [4, 3]");
}

OnnxTensor numbers(std::vector<index> dims, std::vector<double> values) {
  OnnxTensor t(DType::f32, std::move(dims));
  for (std::size_t i = 0; i < values.size(); ++i) t.set(static_cast<index>(i), values[i]);
  return t;
}

OnnxOutputs outputs_of(OnnxNode made, int opset) {
  exec::Eager run{Cpu()};
  made.opset = opset;
  auto outputs = run_node(run, made);
  EXPECT_TRUE(outputs) << outputs.error().message();
  return outputs ? *outputs : OnnxOutputs{};
}

void expect_skipped(OnnxNode made, int opset, const char* words) {
  exec::Eager run{Cpu()};
  made.opset = opset;
  const auto outputs = run_node(run, made);
  ASSERT_FALSE(outputs) << words;
  EXPECT_EQ(outputs.error().code(), StatusCode::unsupported) << outputs.error().message();
  EXPECT_NE(outputs.error().message().find(words), std::string_view::npos) << outputs.error().message();
}

TEST(verify, an_operator_means_what_its_opset_says) {
  // Softmax before 13: from the axis on, 1 where nothing is said, all is one row.
  const OnnxNode softmax = node("Softmax", {numbers({1, 2, 2}, {0, 0, 0, 0})});
  EXPECT_EQ(outputs_of(softmax, 11)[0]->get(3), 0.25);
  EXPECT_EQ(outputs_of(softmax, 12)[0]->get(0), 0.25);
  EXPECT_EQ(outputs_of(softmax, 13)[0]->get(0), 0.5);
  // Attention from 24 on: keys beyond the mask are seen by nobody.
  const OnnxTensor q = numbers({1, 1, 1, 2}, {1, 1}), k = numbers({1, 1, 3, 2}, {0, 0, 0, 0, 0, 0}),
                   v = numbers({1, 1, 3, 1}, {1, 3, 100});
  for (const DType type : {DType::f32, DType::boolean}) {
    OnnxTensor mask(type, {1, 2});
    for (index i = 0; i < 2; ++i) mask.set(i, type == DType::boolean);
    const OnnxNode masked = node("Attention", {q, k, v, mask});
    EXPECT_FLOAT_EQ(static_cast<float>(outputs_of(masked, 24)[0]->get(0)), 2);
    exec::Eager run{Cpu()};
    OnnxNode before = masked;
    before.opset = 23;
    EXPECT_FALSE(run_node(run, before));
  }
  // A scale of 0 is one.
  const OnnxTensor keys = numbers({1, 1, 3, 2}, {0, 0, 9, 9, -9, 5});
  const OnnxNode flat = node("Attention", {q, keys, v}, {{"scale", 0.0}});
  EXPECT_FLOAT_EQ(static_cast<float>(outputs_of(flat, 23)[0]->get(0)), 104.0f / 3);
  // QuantizeLinear from 23 on divides in the scale's type.
  const OnnxNode halves = node("QuantizeLinear", {zeros({3}, DType::f16), zeros({}, DType::f16)});
  expect_skipped(halves, 25, "divides in f32");
  EXPECT_EQ(outputs_of(halves, 21).size(), 1u);
  const OnnxNode wide = node("QuantizeLinear", {zeros({3}), zeros({})}, {{"precision", std::int64_t{10}}});
  expect_skipped(wide, 25, "divides in f32");
  expect_skipped(node("DequantizeLinear", {zeros({3}, DType::i8), zeros({})}, {{"output_dtype", std::int64_t{10}}}), 25,
                 "the type of the scale");
  for (const double bad : {std::nan(""), HUGE_VAL})
    expect_skipped(node("ArgMax", {numbers({2}, {1, bad})}), 13, "finite");
}

TEST(verify, what_nobody_has_read_is_skipped_by_name) {
  expect_skipped(node("Softmax", {zeros({2})}, {{"temperature", 2.0}}), 13, "temperature");
  expect_skipped(node("RMSNormalization", {zeros({2}), zeros({2})}, {{"stash_type", std::int64_t{10}}}), 23, "f32");
  expect_skipped(node("Softmax", {zeros({2})}), latest_opset + 1, "opset 29");
  expect_skipped(node("Gelu", {zeros({2})}), 19, "opset 19");
}

// Files below a kilobyte can ask for terabytes: of a product of vectors, or of rows without elements.
TEST(verify, a_node_that_asks_for_too_much_is_refused) {
  EXPECT_NE(refusal(node("MatMul", {zeros({1 << 20, 0}), zeros({0, 1 << 20})})).find("needs a tensor of more than"),
            std::string::npos);
  EXPECT_EQ(refusal(node("Softmax", {zeros({1 << 20, 0})})), "it ran");
  onnx::TensorProto huge;
  huge.set_data_type(1);
  huge.set_raw_data("");
  for (index dim : {index{0}, index{1} << 40, index{1} << 40}) huge.add_dims(dim);
  EXPECT_TRUE(OnnxTensor::bytes_of(DType::f32, {index{1} << 26}));
  EXPECT_FALSE(OnnxTensor::bytes_of(DType::f32, {index{1} << 27}));  // too many bytes, in a file as in a product
  const auto tensor = read_tensor(huge);
  ASSERT_FALSE(tensor);
  EXPECT_NE(tensor.error().message().find("has a dimension of"), std::string_view::npos);
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

// A case whose files are none fails with the reason, and the next one has its turn.
TEST(verify, goes_on_after_a_case_that_cannot_be_read) {
  const fs::path folder = fs::temp_directory_path() / ("inlay_verify_mixed_" + std::to_string(::getpid()));
  for (const char* name : {"a", "b"}) {
    fs::create_directories(folder / name);
    std::ofstream(folder / name / "model.onnx", std::ios::binary) << "no model";
  }
  exec::Eager run{Cpu()};
  std::stringstream out, errors;
  EXPECT_EQ(verify(run, {folder.string()}, out, errors), 1);
  fs::remove_all(folder);
  EXPECT_EQ(errors.str(), "");
  EXPECT_EQ(out.str().rfind("FAIL a ", 0), 0u) << out.str();
  EXPECT_NE(out.str().find("\nFAIL b "), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("\n0 passed, 2 failed, 0 skipped\n"), std::string::npos) << out.str();
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
