// The tuner: every value of every parameter is right, and every bug that is planted in a candidate is found.
#include <gtest/gtest.h>

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <inlay/cl_tuning.hpp>
#include <inlay/core/staging.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "shapes/flash_attention.hpp"
#include "tests/support/requirements.hpp"
#include "tools/tune/tuner.hpp"

namespace inlay::test {
namespace {

using tools::Answer, tools::Case, tools::Cases, tools::Question;

class ClTuner : public ::testing::Test {
 protected:
  void SetUp() override {
    const auto cl = Cl::make({.tuning = "none"});
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
  static Cl make(ClShape shape) {
    // The per-group shape is proved here, not timed (tests/support/cl_devices.hpp).
    const char* const as_written = shape == ClShape::per_group ? "-cl-opt-disable" : "";
    auto cl = Cl::make({.shape = shape, .build_options = as_written, .tuning = "none"});
    if (!cl) ADD_FAILURE() << cl.error().message();
    return std::move(*cl);
  }
};

// The usual values first, then each of the others: right, and with the same bits where the list says so.
TEST_F(ClTuner, every_value_of_every_parameter_is_right) {
  for (ClShape shape : {ClShape::per_item, ClShape::per_group}) {
    Cl cl = make(shape);
    for (const ClParameter& parameter : cl_parameters()) {
      const Question question = tools::question_of(cl, parameter);
      if (question.values.size() < 2) continue;
      SCOPED_TRACE(std::string(parameter.op) + "." + std::string(parameter.name));
      const auto cases = tools::cases_of(cl, parameter, tools::Size::small);
      ASSERT_TRUE(cases.has_value()) << cases.error().message();
      const auto answer = tools::tune(question, *cases, {.seconds = 0, .margin = 0.9, .batch = 0, .min_rounds = 1});
      ASSERT_TRUE(answer.has_value()) << answer.error().message();
      for (const Answer::Dropped& dropped : answer->dropped) ADD_FAILURE() << dropped.value << ": " << dropped.reason;
      EXPECT_EQ(answer->tuned.value, question.usual);
      EXPECT_EQ(cl.tuned(parameter.op, parameter.name), question.usual);
    }
  }
}

// A prompt by chunks has the bits of the whole, with each cut.
TEST_F(ClTuner, chunks_do_not_show) {
  constexpr index tokens = 21, heads = 6, dim = 72;
  RandomTensors tensors(false, 64);
  const FlashAttention<Host> prompt =
      FlashAttentionShape{.queries = tokens, .heads = heads, .kv_heads = 2, .dim = dim}.make(tensors);
  const auto attend = [&](Cl& cl, index chunk) {
    const View<4> out = tensors.out(DType::f16, {1, tokens, heads, dim});
    for (index first = 0; first < tokens; first += chunk) {
      const index count = std::min(chunk, tokens - first);
      const Status status = run_from_host(cl, FlashAttention<Host>{.q = prompt.q.slice(1, first, count),
                                                                   .k = prompt.k.slice(1, 0, first + count),
                                                                   .v = prompt.v.slice(1, 0, first + count),
                                                                   .out = out.slice(1, first, count),
                                                                   .causal = true});
      EXPECT_TRUE(status.ok()) << status.message();
    }
    std::vector<double> values;
    for (index k = 0; k < tokens * heads; ++k)
      for (index d = 0; d < dim; ++d)
        values.push_back(
            load_element(out.data, out.dtype, k / heads * out.strides[1] + k % heads * out.strides[2] + d));
    return values;
  };
  for (ClShape shape : {ClShape::per_item, ClShape::per_group}) {
    Cl cl = make(shape);
    const char* const parameter = shape == ClShape::per_item ? "unit_rows" : "lanes";
    for (int value : (*cl::find_parameter("attention", parameter))->of(shape).list()) {
      SCOPED_TRACE(std::string(parameter) + " " + std::to_string(value));
      ASSERT_TRUE(cl.tune("attention", parameter, value).ok());
      const std::vector<double> whole = attend(cl, tokens);
      for (index chunk : {1, 5, 16}) EXPECT_EQ(attend(cl, chunk), whole) << "chunks of " << chunk;
    }
  }
}

// y[r, i] = r + i of 4 rows of 16 that lie 24 apart. `value` says which bug is in the kernel.
class ClPlanted : public ClTuner {
 protected:
  enum Value {
    usual = 1,
    fast,
    wrong,
    forgets,
    outside,
    before,
    beside,
    reads_only,
    beyond_its_workspace,
    no_build,
    last_bit
  };

  void SetUp() override {
    ClTuner::SetUp();
    if (IsSkipped()) return;
    cl_.emplace(make(ClShape::per_item));
    for (int value = usual; value <= last_bit; ++value) question_.values.push_back(value);
    question_.choose = [this](int value) {
      value_ = value;
      return Status();
    };
    auto made =
        std::make_unique<Case>(*cl_, "planted", 4, [this](const Case::Provide& provide) { return launch(provide); });
    const auto y = made->add_buffer(std::vector<std::byte>(4 * 24 * sizeof(float) - 32, std::byte{0xff}), true);
    const auto x = made->add_buffer(std::vector<std::byte>(64), false);
    ASSERT_TRUE(y && x);
    y_ = made->address(*y), x_ = made->address(*x);
    Case::Output output{"y", *y, 0, DType::f32, {4, 16}, {24, 1}, {}};
    for (int r = 0; r < 4; ++r)
      for (int i = 0; i < 16; ++i) output.expected.push_back(r + i);
    made->add_output(std::move(output));
    cases_.push_back(std::move(made));
  }
  void TearDown() override {
    cases_.clear();
    for (auto& [value, kernel] : kernels_) clReleaseKernel(kernel);
    cl_.reset();
  }

  Status launch(const Case::Provide& provide) {
    const SpaceWorkspace<Cl> workspace = provide(64);
    cl_kernel& kernel = kernels_[value_];
    if (kernel == nullptr) {
      const std::string text = R"(
kernel void planted(global float* y, long y_begin, global float* x, long x_begin, global float* w, long w_begin) {
  const int r = get_global_id(0);
  y += y_begin, x += x_begin, w += w_begin;
  volatile int spent = 0;
  for (int k = 0; k < (VALUE == 2 ? 1 : 20000); ++k) spent += k;
  for (int i = 0; i < 16; ++i)
    if (VALUE != 4 || r != 2 || i != 7) y[24 * r + i] = r + i + (VALUE == 3 && r == 3 && i == 15 ? 0.01f : 0);
  if (VALUE == 5 && r == 3) y[24 * 4 - 8] = 0;
  if (VALUE == 6 && r == 0) y[-1] = 0;
  if (VALUE == 7 && r == 1) y[24 + 20] = 0;
  if (VALUE == 8) x[r] = 1;
  w[VALUE == 9 ? 16 + r : r] = 1;
#if VALUE == 10
  undeclared = 1;
#endif
  if (VALUE == 11 && r == 3) y[24 * 3 + 15] = as_float(as_int(18.0f) + 1);
})";
      auto program =
          cl_->runtime().programs().build(text, "-cl-std=CL1.2 -D VALUE=" + std::to_string(value_), "planted");
      if (!program) return std::move(program.error());
      kernel = clCreateKernel(*program, "planted", nullptr);
      clReleaseProgram(*program);
    }
    cl_uint argument = 0;
    for (const ClAddress& address : {y_, x_, workspace.begin}) {
      const cl_long begin = address.offset / static_cast<cl_long>(sizeof(float));
      clSetKernelArg(kernel, argument++, sizeof address.memory, &address.memory);
      clSetKernelArg(kernel, argument++, sizeof begin, &begin);
    }
    return cl_->runtime().enqueue(kernel, "planted", {.groups = {4}, .lanes = {1}});
  }

  std::optional<Cl> cl_;
  int value_ = usual;
  Question question_{"planted", "bug", {}, usual, true, {}};
  Cases cases_;
  ClAddress y_, x_;
  std::map<int, cl_kernel> kernels_;
};

TEST_F(ClPlanted, candidates_are_found_and_dropped) {
  const auto answer = tools::tune(question_, cases_, {.seconds = 0, .batch = 1e-4});
  ASSERT_TRUE(answer.has_value()) << answer.error().message();
  const std::pair<int, const char*> expected[] = {{wrong, "y has 18.01"},
                                                  {forgets, "nan at element 39, the reference 9"},
                                                  {outside, "behind y"},
                                                  {before, "before y"},
                                                  {beside, "no element's"},
                                                  {reads_only, "no element's"},
                                                  {beyond_its_workspace, "behind its workspace"},
                                                  {no_build, "use of undeclared identifier 'undeclared'"},
                                                  {last_bit, "other bits than with 1"}};
  ASSERT_EQ(answer->dropped.size(), std::size(expected));
  for (std::size_t i = 0; i < std::size(expected); ++i) {
    EXPECT_EQ(answer->dropped[i].value, expected[i].first);
    EXPECT_NE(answer->dropped[i].reason.find(expected[i].second), std::string::npos) << answer->dropped[i].reason;
  }
  EXPECT_EQ(answer->tuned.value, fast);
  EXPECT_EQ(value_, fast);
  ASSERT_EQ(answer->tuned.cases.size(), 1u);
  EXPECT_LT(answer->tuned.cases[0].seconds, answer->tuned.cases[0].usual_seconds);
}

TEST_F(ClPlanted, the_last_bit_may_differ_where_the_list_says_so) {
  question_.same_bits = false;
  question_.values = {usual, last_bit};
  const auto answer = tools::tune(question_, cases_, {.seconds = 0, .margin = 0.9, .batch = 0});
  ASSERT_TRUE(answer.has_value());
  EXPECT_TRUE(answer->dropped.empty());
  EXPECT_EQ(answer->best, last_bit);
  EXPECT_EQ(answer->tuned.value, usual) << "it is no faster";
  EXPECT_EQ(value_, usual);
}

TEST_F(ClPlanted, where_all_others_are_dropped_the_usual_value_stays) {
  question_.values = {usual, wrong};
  const auto answer = tools::tune(question_, cases_, {.seconds = 0, .batch = 0});
  ASSERT_TRUE(answer.has_value());
  EXPECT_EQ(answer->dropped.size(), 1u);
  EXPECT_EQ(answer->tuned.value, usual);
  EXPECT_EQ(value_, usual);
}

TEST_F(ClPlanted, where_the_usual_value_is_wrong_nothing_is_measured) {
  question_.usual = wrong;
  const auto answer = tools::tune(question_, cases_, {.seconds = 0, .batch = 0});
  ASSERT_TRUE(answer.has_value());
  ASSERT_EQ(answer->dropped.size(), 1u);
  EXPECT_EQ(answer->dropped[0].value, wrong);
  EXPECT_EQ(answer->tuned.value, wrong);
  EXPECT_EQ(answer->best, 0);
  EXPECT_TRUE(answer->tuned.cases.empty());
}

}  // namespace
}  // namespace inlay::test
