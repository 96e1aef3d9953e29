// Buffers over memory of the host's begin wherever it does: the per-group shape, whose lanes move 16 bytes and more at
// once where they may, does so by addresses, not by offsets.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear_int8.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "cl_kernels/runtime/launch.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

// An engine whose buffers lie over memory of the host's: one of them, or all, `past` bytes behind a line. Workspaces
// are the pool's.
class OverHost {
 public:
  using Space = Cl;

  static constexpr std::size_t all = 1000;

  OverHost(Cl& cl, std::size_t past, std::size_t which = all) : cl_(cl), past_(past), which_(which) {}
  OverHost(const OverHost&) = delete;
  ~OverHost() {
    for (cl_mem buffer : buffers_) clReleaseMemObject(buffer);
  }

  Expected<ClAddress> allocate(std::size_t bytes) {
    const std::size_t past = which_ == all || which_ == buffers_.size() ? past_ : 0;
    lines_.emplace_back(bytes + past);
    buffers_.push_back(clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, bytes,
                                      lines_.back().data() + past, nullptr));
    return ClAddress{buffers_.back(), 0};
  }
  void release(ClAddress) {}
  Status upload(ClAddress to, std::span<const std::byte> from) { return cl_.upload(to, from); }
  Status download(std::span<std::byte> to, ConstClAddress from) { return cl_.download(to, from); }
  Status finish() { return cl_.finish(); }
  Cl& cl() { return cl_; }

 private:
  Cl& cl_;
  std::size_t past_, which_;
  std::vector<std::vector<std::byte, CacheLineAllocator<std::byte>>> lines_;
  std::vector<cl_mem> buffers_;
};
template <class Op> Status supports(OverHost&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(OverHost& device, const Op& op) {
  return inlay::scratch_bytes(device.cl(), op);
}
template <class Op> Status compute(OverHost& device, const Op& op, const SpaceWorkspace<Cl>& workspace) {
  auto own = Allocation<Cl>::make(device.cl(), workspace.bytes);
  if (!own) return std::move(own.error());
  return inlay::compute(device.cl(), op, {own->data(), workspace.bytes});
}

// Begins with a line: run_from_host keeps remainders.
template <class T> using Line = std::vector<T, CacheLineAllocator<T>>;

class ClHostMemory : public ::testing::Test {
 protected:
  void SetUp() override {
    // PoCL compiles the per-group shape's attention in a fifth of the time as it is written; its vectors are the same.
    for (const ClOptions& options : {ClOptions{.shape = ClShape::per_group, .build_options = "-cl-opt-disable"},
                                     ClOptions{.shape = ClShape::per_item}}) {
      auto made = Cl::make(options);
      INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
      shapes_.push_back(std::move(*made));
    }
  }

  Line<float> numbers(std::size_t count) {
    Line<float> list(count);
    for (float& v : list) v = std::uniform_real_distribution<float>(-1, 1)(rng_);
    return list;
  }
  template <class T> Line<T> codes(std::size_t count) {
    Line<T> list(count);
    for (T& v : list) v = static_cast<T>(rng_());
    return list;
  }

  // Wherever its operands begin, `step` bytes behind a line or more, `y` is what it is on memory of the pool.
  template <class T, class Op> void same_from_anywhere(const Op& op, Line<T>& y, std::size_t step, double near = 0) {
    const Line<T> before = y;
    for (Cl& cl : shapes_) {
      y = before;
      const Status status = run_from_host(cl, op);
      ASSERT_TRUE(status.ok()) << status.message();
      const Line<T> expected = y;
      ASSERT_NE(expected, before);
      const auto same = [&](std::size_t past, std::size_t which) {
        SCOPED_TRACE("buffer " + std::to_string(which) + " " + std::to_string(past) + " bytes behind a line");
        OverHost device(cl, past, which);
        y = before;
        const Status there = run_from_host(device, op);
        ASSERT_TRUE(there.ok()) << there.message();
        for (std::size_t i = 0; i < y.size(); ++i)
          ASSERT_LE(std::abs(static_cast<double>(y[i]) - static_cast<double>(expected[i])), near) << i;
      };
      for (std::size_t past : {std::size_t{0}, step, 16 + step, std::size_t{32}}) same(past, OverHost::all);
      for (std::size_t operand = 1; operand <= 4; ++operand) same(step, operand);
    }
    y = before;
  }

  std::vector<Cl> shapes_;
  std::mt19937 rng_{1};
};

TEST_F(ClHostMemory, rms_norm) {
  auto x = numbers(3 * 512), weight = numbers(512), y = Line<float>(x.size());
  const RmsNorm<Host> op{.x = {x.data(), {3, 512}}, .weight = {weight.data(), {512}}, .y = {y.data(), {3, 512}}};
  same_from_anywhere(op, y, 4, 1e-5);
}

// What was found: numbers that a file holds at any multiple of their elements, looked at where they lie.
TEST_F(ClHostMemory, mapped) {
  auto x = numbers(513), weight = numbers(513), y = Line<float>(512);
  for (Cl& cl : shapes_) {
    const auto map = [&](const Line<float>& list) { return cl.map(std::as_bytes(std::span(list)).subspan(4)); };
    const auto of_x = map(x), of_weight = map(weight);
    ASSERT_TRUE(of_x && of_weight);
    if (!*of_x || !*of_weight) GTEST_SKIP() << "not tested: ClHostMemory.mapped (cl): no memory of the host's";
    const auto there = Allocation<Cl>::make(cl, 2048);
    ASSERT_TRUE(there.has_value());
    const Status status = run(cl, RmsNorm<Cl>{.x = {**of_x, DType::f32, {1, 512}},
                                              .weight = {**of_weight, DType::f32, {512}},
                                              .y = {there->data(), DType::f32, {1, 512}}});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(cl.download(std::as_writable_bytes(std::span(y)), there->data()).ok());
    double squares = 0;
    for (std::size_t i = 1; i <= 512; ++i) squares += static_cast<double>(x[i]) * x[i];
    for (std::size_t i = 0; i < 512; ++i)
      ASSERT_NEAR(y[i], x[i + 1] / std::sqrt(squares / 512 + 1e-5) * weight[i + 1], 1e-5) << i;
    cl.release(**of_x), cl.release(**of_weight);
  }
}

TEST_F(ClHostMemory, linear_int8) {
  for (index rows : {1, 4, 70}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    auto x = codes<std::int8_t>(static_cast<std::size_t>(rows) * 128), weight = codes<std::int8_t>(32 * 128);
    Line<std::int32_t> sums(32), y(static_cast<std::size_t>(rows) * 32);
    for (std::size_t i = 0; i < weight.size(); ++i) sums[i / (16 * 128) * 16 + i % 64 / 4] += weight[i];
    const LinearInt8<Host> op{.x = {x.data(), {rows, 128}},
                              .weight = {weight.data(), {2, 32, 64}},
                              .weight_sum = {sums.data(), {32}},
                              .y = {y.data(), {rows, 32}}};
    same_from_anywhere(op, y, 4);
  }
}

TEST_F(ClHostMemory, linear_w4a16) {
  for (index rows : {1, 4, 70}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    auto x = numbers(static_cast<std::size_t>(rows) * 128), scales = numbers(64);
    auto packed = codes<std::uint8_t>(2 * 16 * 64);
    Line<float> y(static_cast<std::size_t>(rows) * 32);
    const LinearW4a16<Host> op{.x = {x.data(), {rows, 128}},
                               .codes = {packed.data(), {2, 16, 64}},
                               .scales = {scales.data(), {2, 2, 16}},
                               .y = {y.data(), {rows, 32}},
                               .group = 64};
    same_from_anywhere(op, y, 4, 1e-4);
  }
}

// The one kernel that moves 16 bytes at once in the per-item shape, too.
TEST_F(ClHostMemory, copied_blocks) {
  auto cache = codes<std::int8_t>(4 * 256);
  const std::vector<std::int64_t> pairs = {0, 3, 1, 2};
  const CopyBlocks<Host> op{.k_cache = {cache.data(), {4, 1, 1, 4, 64}}, .pairs = {pairs.data(), {2, 2}}};
  same_from_anywhere(op, cache, 8);
}

TEST_F(ClHostMemory, attention) {
  for (index rows : {4, 40}) {
    SCOPED_TRACE(std::to_string(rows) + " rows");
    const auto size = static_cast<std::size_t>(rows) * 64;
    auto q = numbers(size), k = numbers(48 * 64), v = numbers(48 * 64);
    Line<float> out(size);
    const FlashAttention<Host> op{.q = {q.data(), {1, rows, 1, 64}},
                                  .k = {k.data(), {1, 48, 1, 64}},
                                  .v = {v.data(), {1, 48, 1, 64}},
                                  .out = {out.data(), {1, rows, 1, 64}}};
    same_from_anywhere(op, out, 4, 1e-5);
  }
}

// A view keeps its vectors where memory and offset make up a line together.
TEST_F(ClHostMemory, offset_and_memory_count_together) {
  Cl& cl = shapes_[0];
  OverHost device(cl, 4);
  const auto made = device.allocate(1024);
  ASSERT_TRUE(made.has_value());
  const auto at = [&](std::ptrdiff_t offset) { return ConstView<2, Cl>({made->memory, offset}, DType::f32, {1, 64}); };
  EXPECT_FALSE(cl::aligned(cl, at(0)));
  EXPECT_FALSE(cl::aligned(cl, at(4)));
  EXPECT_TRUE(cl::aligned(cl, at(28)));
  EXPECT_TRUE(cl::aligned(cl, at(60)));
}

// A place within an element is no place for a view, nor one within a line for a workspace.
TEST_F(ClHostMemory, what_is_not_aligned_to_its_elements_is_refused) {
  Cl& cl = shapes_[0];
  OverHost device(cl, 2);
  const auto made = device.allocate(4096);
  ASSERT_TRUE(made.has_value());
  const auto rows = [&](DType type) { return View<2, Cl>(*made, type, {1, 64}); };
  const auto norm = [&](DType type) {
    return RmsNorm<Cl>{
        .x = rows(type), .weight = {{made->memory, 1024}, type, {64}}, .y = {{made->memory, 2048}, type, {1, 64}}};
  };
  EXPECT_TRUE(run(cl, norm(DType::f16)).ok());
  EXPECT_EQ(run(cl, norm(DType::f32)).message(),
            "x begins at an address that is no multiple of 4; it must be aligned to 4 bytes");
  const CopyBlocks<Cl> copy{.k_cache = {*made, DType::f16, {2, 1, 1, 4, 2}},
                            .pairs = {{made->memory, 1022}, DType::i64, {1, 2}}};
  EXPECT_EQ(
      run(cl, copy, {*made, 64}).message(),
      "pairs begins at a place that is no multiple of 8 bytes; it must be aligned to its elements, which are i64");
  const auto pairs = Allocation<Cl>::make(cl, 16);
  ASSERT_TRUE(pairs.has_value());
  CopyBlocks<Cl> sound = copy;
  sound.pairs = {pairs->data(), DType::i64, {1, 2}};
  EXPECT_EQ(run(cl, sound, {{made->memory, 1024}, 64}).message(),
            "workspace begins at an address that is no multiple of 64; it must be aligned to 64 bytes");
  EXPECT_TRUE(cl.finish().ok());
}

}  // namespace
}  // namespace inlay::test
