// Calls that are wrong: each is told in words what it was given and what it must be, and has written nothing.
#include <gtest/gtest.h>

#include <functional>
#include <limits>
#include <string>

#include "tests/bindings/tensor.hpp"

namespace inlay::test {
namespace {

using Strings = std::vector<std::string>;

// A valid call of rms_norm, x [2, 4], for rows to spoil.
struct Norm {
  CTensor<float> x{{2, 4}, {1, 2, 3, 4, 5, 6, 7, 8}}, weight{{4}, {1, 1, 1, 1}}, y{{2, 4}, std::vector<float>(8, -77)};
  inlay_backend* backend = nullptr;
  const char* op = "rms_norm";
  std::vector<inlay_argument> arguments{inlay_give_tensor("x", &x.dl), inlay_give_tensor("weight", &weight.dl),
                                        inlay_give_tensor("y", &y.dl), inlay_give_number("eps", 1e-6)};
  void* workspace = nullptr;
  std::size_t workspace_bytes = 0;

  explicit Norm(const char* name = "cpu") {
    inlay_backend_options options{};
    options.size = sizeof options;
    options.name = name;
    EXPECT_EQ(inlay_backend_open(&options, &backend), INLAY_OK) << inlay_message();
  }
  ~Norm() { inlay_backend_close(backend); }
  inlay_code run() { return inlay_run(backend, op, arguments.data(), arguments.size(), workspace, workspace_bytes); }
};

struct Row {
  const char* what;
  std::function<void(Norm&)> spoil;
  Strings words;
  inlay_code code = INLAY_INVALID_ARGUMENT;
};

std::vector<Row> rows() {
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  static int64_t backwards[] = {4, -1}, step[] = {8, 2};
  return {
      {"no operator", [](Norm& n) { n.op = nullptr; }, {"op is null"}},
      {"an unknown operator", [](Norm& n) { n.op = "rmsnorm"; }, {"no operator 'rmsnorm'", "one of ", " rms_norm "}},
      {"an unprintable operator", [](Norm& n) { n.op = "\x01\xff"; }, {"'\\x01\\xff'"}},
      {"no arguments", [](Norm& n) { n.arguments.clear(); }, {"rms_norm: x is missing"}},
      {"an unknown argument",
       [](Norm& n) { n.arguments[1].name = "wieght"; },
       {"rms_norm: there is no argument 'wieght'", "x weight residual y y_scale heads eps weight_offset"}},
      {"an argument without a name",
       [](Norm& n) { n.arguments[2].name = nullptr; },
       {"rms_norm: argument 2 has no name"}},
      {"an argument twice", [](Norm& n) { n.arguments.push_back(n.arguments[0]); }, {"rms_norm: x is given twice"}},
      {"a required one left out",
       [](Norm& n) { n.arguments.erase(n.arguments.begin() + 1); },
       {"rms_norm: weight is missing; it must be given"}},
      {"a required one that is null", [](Norm& n) { n.arguments[2].tensor = nullptr; }, {"rms_norm: y is missing"}},
      {"a number for a tensor",
       [](Norm& n) { n.arguments[0] = inlay_give_number("x", 1); },
       {"rms_norm: x is given a number", "must be a tensor"}},
      {"a tensor for a number",
       [](Norm& n) { n.arguments[3] = inlay_give_tensor("eps", &n.x.dl); },
       {"rms_norm: eps is given a tensor", "must be a number"}},
      {"a tensor that is null for a number",
       [](Norm& n) { n.arguments[3] = inlay_give_tensor("eps", nullptr); },
       {"rms_norm: eps is given a tensor", "must be a number"}},
      {"an integer for a number",
       [](Norm& n) { n.arguments[3] = inlay_give_integer("eps", 1); },
       {"rms_norm: eps is given an integer", "must be a number"}},
      {"a number for an integer",
       [&](Norm& n) { n.arguments[3] = inlay_give_number("heads", nan); },
       {"rms_norm: heads is given a number", "must be an integer"}},
      {"a kind that is none",
       [](Norm& n) { n.arguments[0].kind = 77; },
       {"rms_norm: x", "no kind (kind 77)", "a tensor"}},
      {"a reserved member",
       [](Norm& n) { n.arguments[0].reserved = 5; },
       {"rms_norm: x", "reserved", "5", "must be 0"}},
      {"NaN", [&](Norm& n) { n.arguments[3].number = nan; }, {"rms_norm: eps is nan", "zero or more, and finite"}},
      {"a number below its range",
       [](Norm& n) { n.arguments[3].number = -1; },
       {"rms_norm: eps is -1", "zero or more"}},
      {"a number beyond a float", [](Norm& n) { n.arguments[3].number = 1e300; }, {"rms_norm: eps is 1e+300", "float"}},
      {"an integer below its range",
       [](Norm& n) { n.arguments.push_back(inlay_give_integer("heads", 0)); },
       {"rms_norm: heads is 0", "at least 1"}},
      {"an integer beyond all",
       [](Norm& n) { n.arguments.push_back(inlay_give_integer("heads", INT64_MIN)); },
       {"rms_norm: heads is -9223372036854775808"}},
      {"a rank", [](Norm& n) { n.x.dl.ndim = 1; }, {"rms_norm: x: ", "has 1 dimensions", "must have 2"}},
      {"a negative rank", [](Norm& n) { n.x.dl.ndim = -3; }, {"rms_norm: x: ", "has -3 dimensions"}},
      {"an enormous rank", [](Norm& n) { n.x.dl.ndim = INT32_MAX; }, {"rms_norm: x: ", "has 2147483647 dimensions"}},
      {"a dtype of the wrong kind",
       [](Norm& n) { n.x.dl.dtype.code = kDLInt; },
       {"rms_norm: x has dtype i32", "must be one of f32 f16 bf16"}},
      {"a dtype that there is not", [](Norm& n) { n.x.dl.dtype.bits = 64; }, {"rms_norm: x: ", "code 2 with 64 bits"}},
      {"a code that there is not", [](Norm& n) { n.x.dl.dtype.code = 200; }, {"rms_norm: x: ", "code 200"}},
      {"lanes", [](Norm& n) { n.x.dl.dtype.lanes = 4; }, {"rms_norm: x: ", "4 lanes", "must have 1"}},
      {"a device",
       [](Norm& n) { n.y.dl.device.device_type = 2; },
       {"rms_norm: y: ", "device type 2", "must be 1 (CPU)"}},
      {"a device that there is not",
       [](Norm& n) { n.y.dl.device.device_type = -9; },
       {"rms_norm: y: ", "device type -9"}},
      {"no data", [](Norm& n) { n.x.dl.data = nullptr; }, {"rms_norm: x has shape [2, 4] but no memory"}},
      {"no shape", [](Norm& n) { n.x.dl.shape = nullptr; }, {"rms_norm: x: ", "has no shape"}},
      {"an offset from nothing",
       [](Norm& n) { n.x.dl.data = nullptr, n.x.dl.byte_offset = 64; },
       {"rms_norm: x: ", "byte_offset 64", "no data"}},
      {"an offset out of memory",
       [](Norm& n) { n.x.dl.byte_offset = UINT64_MAX - 3; },
       {"rms_norm: x: ", "byte_offset 18446744073709551612"}},
      {"an offset within an element",
       [](Norm& n) { n.x.dl.byte_offset = 2; },
       {"rms_norm: x begins at a place that is no multiple of 4"}},
      {"an extent that is negative", [](Norm& n) { n.x.shape[0] = -2; }, {"rms_norm: x has shape [-2, 4]"}},
      {"an extent beyond memory",
       [](Norm& n) { n.x.shape[0] = INT64_MAX; },
       {"rms_norm: x has shape [9223372036854775807, 4]"}},
      {"a shape",
       [](Norm& n) {
         n.y.shape = {1, 4}, n.y.dl.shape = n.y.shape.data();
       },
       {"rms_norm: y has shape [1, 4]", "must be [2, 4]"}},
      {"an inner stride",
       [](Norm& n) { n.x.shape[0] = 1, n.y.shape[0] = 1, n.x.dl.strides = step; },
       {"rms_norm: x has innermost stride 2", "must be 1"}},
      {"an inner stride backwards",
       [](Norm& n) { n.y.dl.strides = backwards; },
       {"rms_norm: y has innermost stride -1"}},
      {"an output over an input",
       [](Norm& n) { n.y.dl.data = n.x.values.data() + 1, n.y.shape[0] = n.x.shape[0] = 1; },
       {"rms_norm: y overlaps x"}},
      {"a workspace at no address",
       [](Norm& n) { n.workspace_bytes = 64; },
       {"rms_norm: workspace is null and has 64 bytes"}},
  };
}

class Refusals : public ::testing::TestWithParam<const char*> {};

TEST_P(Refusals, say_what_is_wrong_and_write_nothing) {
  for (const Row& row : rows()) {
    SCOPED_TRACE(row.what);
    Norm norm(GetParam());
    row.spoil(norm);
    const std::vector<float> x = norm.x.values;
    EXPECT_EQ(norm.run(), row.code);
    const std::string message = inlay_message();
    for (const std::string& word : row.words)
      EXPECT_NE(message.find(word), std::string::npos) << word << " in: " << message;
    EXPECT_EQ(norm.y.values, std::vector<float>(8, -77));
    EXPECT_EQ(norm.x.values, x);
    if (norm.workspace_bytes != 0) continue;
    // It is refused in the same words where only the scratch is asked for.
    std::size_t bytes = 4711;
    EXPECT_EQ(inlay_workspace_bytes(norm.backend, norm.op, norm.arguments.data(), norm.arguments.size(), &bytes),
              row.code);
    EXPECT_EQ(message, inlay_message());
    EXPECT_EQ(bytes, 4711u);
  }
}
INSTANTIATE_TEST_SUITE_P(, Refusals, ::testing::Values("cpu", "reference"));

bool says(const char* words) {
  const bool found = std::string(inlay_message()).find(words) != std::string::npos;
  if (!found) ADD_FAILURE() << words << " in: " << inlay_message();
  return found;
}

TEST(refusals, of_pointers_that_are_null) {
  Norm norm;
  const auto count = norm.arguments.size();
  EXPECT_EQ(inlay_run(nullptr, "rms_norm", norm.arguments.data(), count, nullptr, 0), INLAY_INVALID_ARGUMENT);
  says("backend is null");
  EXPECT_EQ(inlay_run(norm.backend, "rms_norm", nullptr, count, nullptr, 0), INLAY_INVALID_ARGUMENT);
  says("rms_norm: arguments is null; it must point to 4");
  EXPECT_EQ(inlay_workspace_bytes(norm.backend, "rms_norm", norm.arguments.data(), count, nullptr),
            INLAY_INVALID_ARGUMENT);
  says("rms_norm: bytes is null");
  EXPECT_EQ(inlay_field_count("rms_norm", nullptr), INLAY_INVALID_ARGUMENT);
  says("count is null");
  EXPECT_EQ(inlay_field_at("rms_norm", 0, nullptr), INLAY_INVALID_ARGUMENT);
  says("inlay_field is null");
  EXPECT_EQ(inlay_backend_open(nullptr, nullptr), INLAY_INVALID_ARGUMENT);
  says("backend is null");
  inlay_backend_close(nullptr);
}

TEST(refusals, of_words_flags_and_lists) {
  Norm norm;
  const auto run = [&](const char* op, inlay_argument argument) {
    return inlay_run(norm.backend, op, &argument, 1, nullptr, 0);
  };
  EXPECT_EQ(run("gelu", inlay_give_word("form", "gaussian")), INLAY_INVALID_ARGUMENT);
  says("gelu: form is 'gaussian'; it must be one of erf tanh quick relu_squared softcap xielu");
  EXPECT_EQ(run("gelu", inlay_give_word("form", nullptr)), INLAY_INVALID_ARGUMENT);
  says("gelu: form is a word that is null");
  EXPECT_EQ(run("gelu", inlay_give_word("form", "")), INLAY_INVALID_ARGUMENT);
  says("gelu: form is ''");
  EXPECT_EQ(run("gelu", inlay_give_integer("form", 1)), INLAY_INVALID_ARGUMENT);
  says("gelu: form is given an integer (kind 3); it must be a word (kind 6)");
  inlay_argument flag = inlay_give_flag("log", 1);
  flag.integer = 2;
  EXPECT_EQ(run("softmax", flag), INLAY_INVALID_ARGUMENT);
  says("softmax: log is 2; it must be 0 or 1");
  EXPECT_EQ(run("softmax", inlay_give_integer("log", 1)), INLAY_INVALID_ARGUMENT);
  says("softmax: log is given an integer");
  const DLTensor* one[] = {&norm.x.dl, nullptr};
  EXPECT_EQ(run("incre_flash_attention", inlay_give_list("k_list", one, 2)), INLAY_INVALID_ARGUMENT);
  says("incre_flash_attention: k_list[0]: DLTensor has 2 dimensions; it must have 3");
  EXPECT_EQ(run("incre_flash_attention", inlay_give_list("k_list", one + 1, 1)), INLAY_INVALID_ARGUMENT);
  says("incre_flash_attention: k_list[0] is null");
  EXPECT_EQ(run("incre_flash_attention", inlay_give_list("k_list", nullptr, 3)), INLAY_INVALID_ARGUMENT);
  says("incre_flash_attention: k_list is a list of 3 at no address");
  EXPECT_EQ(run("incre_flash_attention", inlay_give_list("k_list", one, SIZE_MAX)), INLAY_INVALID_ARGUMENT);
  says("incre_flash_attention: k_list is a list of");
  EXPECT_EQ(run("incre_flash_attention", inlay_give_tensor("k_list", &norm.x.dl)), INLAY_INVALID_ARGUMENT);
  says("incre_flash_attention: k_list is given a tensor (kind 1); it must be a list of tensors (kind 2)");
}

TEST(refusals, of_a_workspace_too_small_or_askew) {
  Norm norm;
  CTensor<float> x({64, 256}, std::vector<float>(64 * 256, 1)), weight({1024, 256}, std::vector<float>(1024 * 256, 1)),
      y({64, 1024}, std::vector<float>(64 * 1024, -77));
  const inlay_argument arguments[] = {inlay_give_tensor("x", &x.dl), inlay_give_tensor("weight_rows", &weight.dl),
                                      inlay_give_tensor("y", &y.dl)};
  std::size_t bytes = 0;
  ASSERT_EQ(inlay_workspace_bytes(norm.backend, "linear", arguments, 3, &bytes), INLAY_OK) << inlay_message();
  if (bytes == 0) GTEST_SKIP() << "linear needs no scratch here";
  std::vector<std::byte> memory(bytes + 128);
  std::byte* aligned = memory.data() + 64 - reinterpret_cast<std::uintptr_t>(memory.data()) % 64;
  EXPECT_EQ(inlay_run(norm.backend, "linear", arguments, 3, aligned, bytes - 1), INLAY_INVALID_ARGUMENT);
  says(("linear: workspace has " + std::to_string(bytes - 1) + " bytes; it must have at least " + std::to_string(bytes))
           .c_str());
  EXPECT_EQ(inlay_run(norm.backend, "linear", arguments, 3, aligned + 4, bytes), INLAY_INVALID_ARGUMENT);
  says("linear: workspace begins at an address that is no multiple of 64");
  EXPECT_EQ(y.values, std::vector<float>(64 * 1024, -77));
  EXPECT_EQ(inlay_run(norm.backend, "linear", arguments, 3, aligned, bytes), INLAY_OK) << inlay_message();
  const std::vector<float> given = y.values;
  EXPECT_EQ(given, std::vector<float>(64 * 1024, 256));
  EXPECT_EQ(inlay_run(norm.backend, "linear", arguments, 3, nullptr, 0), INLAY_OK) << inlay_message();
  EXPECT_EQ(y.values, given);
}

TEST(refusals, keep_their_words_until_the_next) {
  Norm norm;
  norm.op = "rmsnorm";
  EXPECT_NE(norm.run(), INLAY_OK);
  norm.op = "rms_norm";
  EXPECT_EQ(norm.run(), INLAY_OK);
  says("no operator 'rmsnorm'");
}

TEST(refusals, of_long_names_are_cut) {
  Norm norm;
  const std::string name(100000, 'x');
  norm.op = name.c_str();
  EXPECT_EQ(norm.run(), INLAY_INVALID_ARGUMENT);
  EXPECT_LT(std::string(inlay_message()).size(), 2048u);
  says("xxx...'");
}

}  // namespace
}  // namespace inlay::test
