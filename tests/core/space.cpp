// The seam of memory spaces, proved before a device exists: views, checks, rebind, staging and the order of run over
// a space that the host cannot touch. The sweep of every operator runs there too (on_every_backend).
#include <inlay/inlay.hpp>

#include <gtest/gtest.h>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/tensor.hpp"
#include "tests/support/test_space.hpp"

namespace inlay::test {
namespace {

using Device2 = View<2, TestSpace>;

TEST(space, slices_and_presence_need_no_address) {
  const Device2 x({3, 64}, DType::f16, {4, 8}, {10, 1});
  const Device2 rows = x.slice(0, 2, 2);
  EXPECT_EQ(rows.data, (TestPointer{3, 64 + 2 * 10 * 2}));
  EXPECT_EQ(rows.extents, (std::array<index, 2>{2, 8}));
  const View<2, TestSpace> nibbles({3, 0}, DType::u4, {4, 8});
  EXPECT_EQ(nibbles.slice(1, 6, 2).data, (TestPointer{3, 3}));
  EXPECT_TRUE(x.present());
  EXPECT_FALSE(Device2().present());
}

TEST(space, views_overlap_within_a_buffer_only) {
  const Device2 q({1, 0}, DType::f32, {4, 8}, {24, 1}), k({1, 32}, DType::f32, {4, 8}, {24, 1});
  const Device2 other({2, 0}, DType::f32, {4, 8}, {24, 1});
  EXPECT_FALSE(overlap(q, k));  // side by side in fused rows
  EXPECT_TRUE(overlap(q, Device2({1, 16}, DType::f32, {4, 8}, {24, 1})));
  EXPECT_FALSE(overlap(q, other));
  // From behind q back to its first row.
  EXPECT_TRUE(overlap(q, Device2({1, 4 * 24 * 4}, DType::f32, {5, 8}, {-24, 1})));
  EXPECT_TRUE(same_elements(q, ConstView<2, TestSpace>(q)));
  EXPECT_FALSE(same_elements(q, other));
  std::vector<float> host(32);
  const View<2> at(host.data(), {4, 8});
  EXPECT_FALSE(overlap(q, at));
  EXPECT_FALSE(overlap(Device2({0, SpacePointer<Host>::byte_offset(host.data())}, DType::f32, {4, 8}), at));
}

TEST(space, a_check_names_what_is_wrong_in_any_space) {
  Add<TestSpace> op{
      .a = {{1, 0}, DType::f32, {2, 8}}, .b = {{2, 0}, DType::f32, {2, 8}}, .y = {{1, 4}, DType::f32, {2, 8}}};
  EXPECT_EQ(check(op).message(), "y overlaps a; it must have memory of its own or be the same view");
  op.y.data = {};
  EXPECT_EQ(check(op).message(), "y has shape [2, 8] but no memory; its data must not be null");
  op.y.data = {1, 0};
  EXPECT_TRUE(check(op).ok());
}

TEST(space, a_list_is_checked_view_by_view) {
  const auto view = [](int buffer) { return ConstView<3, TestSpace>({buffer, 0}, DType::f32, {4, 1, 8}); };
  std::vector<ConstView<3, TestSpace>> k{view(1), view(2)}, v{view(3), view(4)};
  IncreFlashAttention<TestSpace> op{
      .q = {{5, 0}, DType::f32, {2, 1, 1, 8}}, .k_list = k, .v_list = v, .out = {{6, 0}, DType::f32, {2, 1, 1, 8}}};
  ASSERT_TRUE(ok(check(op)));
  k[1].strides[2] = 2;
  EXPECT_EQ(check(op).message(), "k_list[1] has innermost stride 2; it must be 1");
  k[1] = view(6);
  EXPECT_EQ(check(op).message(), "out overlaps k_list; it must have memory of its own");
  k[1].data.offset = 64;  // behind out
  EXPECT_TRUE(ok(check(op)));
  k[1] = ConstView<3, TestSpace>({}, DType::f32, {4, 1, 8});
  EXPECT_EQ(check(op).message(), "k_list[1] has shape [4, 1, 8] but no memory; its data must not be null");
}

TEST(space, rebind_moves_every_view_and_every_list) {
  std::vector<float> host(64);
  std::vector<ConstView<3>> k(2, ConstView<3>(host.data(), {4, 1, 8})), v = k;
  const IncreFlashAttention<Host> op{.q = {host.data(), {2, 1, 1, 8}},
                                     .k_list = k,
                                     .v_list = v,
                                     .out = {host.data(), {2, 1, 1, 8}},
                                     .scale = 0.5f,
                                     .causal = true,
                                     .window_left = 3};
  std::vector<std::string> names;
  auto moved = rebind<TestSpace>(op, [&]<class F, class V>(const F& field, const V& view) {
    names.emplace_back(field.name);
    return ViewIn<V, TestSpace>(TestPointer{static_cast<int>(names.size()), 0}, view.dtype, view.extents, view.strides);
  });
  EXPECT_EQ(names, (std::vector<std::string>{"q", "k_list", "k_list", "v_list", "v_list", "out"}));
  const auto kept = std::move(moved);  // its lists go with it
  EXPECT_EQ(kept.op.k_list[1].data, (TestPointer{3, 0}));
  EXPECT_EQ(kept.op.v_list[0].extents, (std::array<index, 3>{4, 1, 8}));
  EXPECT_EQ(kept.op.out.data, (TestPointer{6, 0}));
  EXPECT_FALSE(kept.op.sinks.present());
  EXPECT_EQ(kept.op.scale, 0.5f);
  EXPECT_TRUE(kept.op.causal);
  EXPECT_EQ(kept.op.window_left, 3);
}

// In place, and side by side in one row: what shares memory shares it on the device, or one copy that comes back would
// undo the other.
TEST(space, staging_keeps_what_shares_memory_together) {
  Rng rng(1);
  Tensor<3> x(DType::f32, {5, 3, 16}, {.row_gap = 0, .misaligned = 3});
  Tensor<2> frequencies(DType::f32, {1, 8});
  Tensor<2> positions(DType::i32, {1, 5}), table(DType::f32, {5, 16});
  x.uniform(rng);
  frequencies.uniform(rng);
  positions.integers(rng, 0, 9);
  Tensor<2> expected_table = table;
  Tensor<3> expected_x = x;
  // | cos: 8 | sin: 8 |, and the second head of x turned where it lies
  const auto both = [&](auto&& run, Tensor<2>& rows, Tensor<3>& heads) {
    const View<2> all = rows;
    const View<2> cos = all.slice(1, 0, 8), sin = all.slice(1, 8, 8);
    const View<3> q = heads.view().slice(1, 1, 1);
    ASSERT_TRUE(ok(run(RopeTable<Host>{.positions = positions, .inv_freq = frequencies, .cos = cos, .sin = sin})));
    ASSERT_TRUE(ok(run(Rope<Host>{.x = q, .cos = cos, .sin = sin, .y = q})));
  };
  both([](const auto& op) { return run(Reference(), op); }, expected_table, expected_x);
  TestDevice device;
  both([&](const auto& op) { return run_from_host(device, op); }, table, x);
  EXPECT_TRUE(table == expected_table);
  EXPECT_TRUE(x == expected_x);
  EXPECT_TRUE(x.gaps_untouched());
}

// Tells where operands came to lie.
struct Remainders : TestDevice {
  std::vector<std::ptrdiff_t> list;
};
template <class Op> Status compute(Remainders& device, const Op& op, const SpaceWorkspace<TestSpace>&) {
  for_each_view(op, [&](const auto&, const auto& view) {
    if constexpr (!std::is_same_v<typename std::remove_cvref_t<decltype(view)>::space, Host>)
      if (view.present()) device.list.push_back(view.data.offset % 64);
  });
  return {};
}

TEST(space, staging_keeps_the_remainder_of_an_address) {
  Tensor<2> a(DType::f32, {2, 8}, {.row_gap = 0, .misaligned = 3}), b(DType::f32, {2, 8});
  Tensor<2> y(DType::f32, {2, 8}, {.row_gap = 0, .misaligned = 5});
  Remainders device;
  ASSERT_TRUE(ok(run_from_host(device, Add<Host>{.a = a.view(), .b = b.view(), .y = y.view()})));
  EXPECT_EQ(device.list, (std::vector<std::ptrdiff_t>{12, 0, 20}));
}

// Present without elements is not absent: ids of no token.
TEST(space, staging_keeps_what_is_present_without_elements) {
  const float somewhere[1] = {};
  TestDevice device;
  const Embedding<Host> op{.table = {somewhere, {1, 1}},
                           .ids = {reinterpret_cast<const std::int32_t*>(somewhere), {0}},
                           .y = {const_cast<float*>(somewhere), {0, 1}}};
  EXPECT_TRUE(ok(check(op)));
  EXPECT_TRUE(ok(run_from_host(device, op)));
}

TEST(space, a_fallback_runs_on_the_host_and_brings_back_what_was_written) {
  TestDevice device;
  std::vector<float> x(32), y(32, -1.0f), one(8, 1.0f);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
  auto a = Allocation<TestDevice>::make(device, 160), b = Allocation<TestDevice>::make(device, 32);
  ASSERT_TRUE(a && b);
  ASSERT_TRUE(ok(device.upload(SpacePointer<TestSpace>::advance(a->data(), 4), std::as_bytes(std::span(x)))));
  ASSERT_TRUE(ok(device.upload(b->data(), std::as_bytes(std::span(one)))));
  const View<2, TestSpace> rows(SpacePointer<TestSpace>::advance(a->data(), 4), DType::f32, {4, 8});
  Cpu cpu(serial());
  ASSERT_TRUE(
      ok(run_on_host(device, cpu, RmsNorm<TestSpace>{.x = rows, .weight = {b->data(), DType::f32, {8}}, .y = rows})));
  ASSERT_TRUE(ok(device.download(std::as_writable_bytes(std::span(y)), rows.data)));
  ASSERT_TRUE(
      ok(run(cpu, RmsNorm<Host>{.x = {x.data(), {4, 8}}, .weight = {one.data(), {8}}, .y = {x.data(), {4, 8}}})));
  EXPECT_EQ(y, x);
}

TEST(space, a_workspace_lies_in_the_space_of_its_backend) {
  TestDevice device;
  auto memory = Allocation<TestDevice>::make(device, 256);
  ASSERT_TRUE(memory.has_value());
  const View<2, TestSpace> x(memory->data(), DType::f32, {1, 8});
  const Add<TestSpace> op{.a = x, .b = x, .y = x};
  EXPECT_EQ(workspace_bytes(device, op), test_scratch);
  const TestPointer at = SpacePointer<TestSpace>::advance(memory->data(), 128);
  EXPECT_TRUE(ok(run(device, op, {at, 96})));
  EXPECT_NE(run(device, op, {at, 95}).message().find("95 bytes"), std::string_view::npos);
  EXPECT_FALSE(run(device, op, {SpacePointer<TestSpace>::advance(at, 8), 96}).ok());
}

// A backend that declines an operator is not asked for scratch, and neither is anything computed.
struct Declining {
  using Space = Host;
  int computed = 0;
};
template <class Op> Status supports(const Declining&, const Op&) { return unsupported("no such kernel"); }
template <class Op> std::size_t scratch_bytes(const Declining&, const Op&) { return 64; }
template <class Op> Status compute(Declining& backend, const Op&, Workspace) {
  ++backend.computed;
  return {};
}

TEST(space, run_asks_check_then_supports_then_for_scratch) {
  Declining backend;
  int asked = 0;
  const auto provide = [&](std::size_t) {
    ++asked;
    return Workspace();
  };
  float x[8] = {};
  const View<2> rows(x, {1, 8});
  EXPECT_EQ(run(backend, Add<Host>{.a = rows, .b = rows, .y = rows}, provide).code(), StatusCode::unsupported);
  EXPECT_EQ(run(backend, Add<Host>{.a = rows, .b = {}, .y = rows}, provide).code(), StatusCode::invalid_argument);
  EXPECT_EQ(workspace_bytes(backend, Add<Host>{.a = rows, .b = rows, .y = rows}), 0u);
  EXPECT_EQ(asked, 0);
  EXPECT_EQ(backend.computed, 0);
  EXPECT_TRUE(ok(finish(backend)));
}

}  // namespace
}  // namespace inlay::test
