// The vocabulary of contracts, tried on an operator that exists here only.
#include <inlay/core/check.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <vector>

namespace inlay {
namespace {

struct Blend {
  ConstView<2> a;
  ConstView<1> weight = {};
  View<2> y;
  View<1> log = {};
  float ratio = 0.5f;
  index groups = 1;

  static constexpr auto fields = FieldList{in("a", &Blend::a),
                                           optional_in("weight", &Blend::weight),
                                           out("y", &Blend::y),
                                           optional_out("log", &Blend::log),
                                           scalar("ratio", &Blend::ratio),
                                           scalar("groups", &Blend::groups)};
};

Status check(const Blend& op) {
  return Check(op)
      .dtype(op.a, floats)
      .same_shape(op.y, op.a)
      .same_dtype(op.y, op.a)
      .extent(op.weight, 0, op.a.extents[1])
      .together(op.weight, op.log)
      .within(op.ratio, 0, 1)
      .at_least(op.groups, 1)
      .may_alias(op.y, op.a);
}

class CheckTest : public ::testing::Test {
 protected:
  std::vector<float> a_ = std::vector<float>(32), y_ = a_, w_ = a_, log_ = a_;
  Blend op_{.a = {a_.data(), {4, 8}}, .y = {y_.data(), {4, 8}}};

  std::string message() {
    const Status status = check(op_);
    return status.ok() ? "ok" : std::string(status.message());
  }
};

TEST_F(CheckTest, lets_the_contract_pass) {
  EXPECT_EQ(message(), "ok");
  op_.y.data = a_.data();
  EXPECT_EQ(message(), "ok");  // exactly in place
  op_.weight = {w_.data(), {8}};
  op_.log = {log_.data(), {3}};
  EXPECT_EQ(message(), "ok");
}

TEST_F(CheckTest, names_parameter_value_and_demand) {
  op_.y.extents[1] = 7;
  EXPECT_EQ(message(), "y has shape [4, 7]; it must be [4, 8]");
  op_.y.extents[1] = 8;
  op_.a.dtype = DType::i32;
  EXPECT_EQ(message(), "a has dtype i32; it must be one of f32 f16 bf16");
  op_.a.dtype = DType::f16;
  EXPECT_EQ(message(), "y has dtype f32; it must be f16, the dtype of a");
  op_.a.dtype = DType::f32;
  op_.ratio = 1.5f;
  EXPECT_EQ(message(), "ratio is 1.500000; it must be in 0.000000..1.000000");
  op_.ratio = std::numeric_limits<float>::quiet_NaN();
  EXPECT_NE(message(), "ok");
  op_.ratio = 0;
  op_.groups = 0;
  EXPECT_EQ(message(), "groups is 0; it must be at least 1");
}

TEST_F(CheckTest, asks_of_every_view_what_every_operator_wants) {
  op_.a = {};
  EXPECT_EQ(message(), "a is missing; it must be given");
  op_.a = {a_.data(), {4, -8}};
  EXPECT_EQ(message(), "a has shape [4, -8]; no extent may be negative");
  op_.a = {static_cast<float*>(nullptr), {4, 8}};
  EXPECT_EQ(message(), "a has shape [4, 8] but no memory; its data must not be null");
  op_.a = ConstView<2>(reinterpret_cast<const std::byte*>(a_.data()) + 2, DType::f32, {3, 8});
  EXPECT_EQ(message(),
            "a begins at a place that is no multiple of 4 bytes; it must be aligned to its elements, which are f32");
  op_.a = {a_.data(), {4, 8}, {1, 4}};
  EXPECT_EQ(message(), "a has innermost stride 4; it must be 1");
  op_.a = {a_.data(), {4, 8}};
  op_.weight = {w_.data(), {8}};
  EXPECT_EQ(message(), "weight is given; it must be left out, as log is");
}

TEST_F(CheckTest, refuses_outputs_over_other_fields) {
  op_.y.data = a_.data() + 1;
  EXPECT_EQ(message(), "y overlaps a; it must have memory of its own or be the same view");
  op_.y.data = a_.data();
  EXPECT_EQ(message(), "ok");
  op_.y.strides[0] = 16;
  EXPECT_EQ(message(), "y overlaps a; it must have memory of its own or be the same view");
  op_.y = {y_.data(), {4, 8}};
  op_.weight = {w_.data(), {8}};
  op_.log = {y_.data() + 4, {3}};
  EXPECT_EQ(message(), "y overlaps log; it must have memory of its own");
}

TEST_F(CheckTest, an_empty_batch_needs_no_memory) {
  op_.a = {static_cast<float*>(nullptr), {0, 8}};
  op_.y = {static_cast<float*>(nullptr), {0, 8}};
  EXPECT_EQ(message(), "ok");
}

TEST(status, success_allocates_nothing_and_failure_carries_its_message) {
  EXPECT_EQ(sizeof(Status), sizeof(void*));
  EXPECT_TRUE(Status().ok());
  EXPECT_EQ(Status().message(), "ok");
  const Status bad = invalid("x is 3; it must be 4");
  EXPECT_EQ(bad.code(), StatusCode::invalid_argument);
  EXPECT_EQ(bad.message(), "x is 3; it must be 4");
}

}  // namespace
}  // namespace inlay
