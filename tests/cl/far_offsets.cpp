// Elements and bytes beyond 2^31 of a buffer, of which only what is touched has memory.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/embedding.hpp>

#include "tests/support/cl_devices.hpp"

namespace inlay::test {
namespace {

// Host memory that the device looks at where it lies.
class ClFarOffsets : public ::testing::TestWithParam<ClShape> {
 protected:
  static constexpr std::size_t bytes_ = 3'400'000'000;

  void SetUp() override {
    auto made = Cl::make({.shape = GetParam()});
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
    INLAY_NEEDS(cl_->device().max_allocation >= bytes_, "cl memory",
                "buffers hold less than " + std::to_string(bytes_));
    memory_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    INLAY_NEEDS(memory_ != MAP_FAILED, "addresses", "there are no " + std::to_string(bytes_) + " bytes of them");
  }
  void TearDown() override {
    for (ClAddress buffer : buffers_) cl_->release(buffer);
    if (memory_ != MAP_FAILED) munmap(memory_, bytes_);
  }
  ClAddress mapped() {
    auto buffer = cl_->map({static_cast<const std::byte*>(memory_), bytes_});
    EXPECT_TRUE(buffer.has_value() && buffer->has_value());
    return buffers_.emplace_back(**buffer);
  }
  template <class T> ClAddress on_device(const std::vector<T>& values) {
    auto buffer = cl_->allocate(values.size() * sizeof(T));
    EXPECT_TRUE(buffer.has_value());
    EXPECT_TRUE(cl_->upload(*buffer, std::as_bytes(std::span(values))).ok());
    return buffers_.emplace_back(*buffer);
  }

  std::optional<Cl> cl_;
  void* memory_ = MAP_FAILED;
  std::vector<ClAddress> buffers_;
};

INSTANTIATE_TEST_SUITE_P(, ClFarOffsets, ::testing::Values(ClShape::per_item, ClShape::per_group),
                         [](const auto& shape) { return shape.param == ClShape::per_item ? "per_item" : "per_group"; });

TEST_P(ClFarOffsets, rows_of_a_table) {
  constexpr index vocab = 4, dim = 24, stride = 1'100'000'000;
  auto* const table = static_cast<std::int8_t*>(memory_);
  for (index id = 0; id < vocab; ++id)
    for (index i = 0; i < dim; ++i) table[id * stride + i] = static_cast<std::int8_t>(20 * id + i);
  // Rows from the first on, and a view that itself begins beyond 2^31.
  const ClAddress whole = mapped(), scales = on_device(std::vector<float>(vocab, 1));
  for (index first : {0, 3}) {
    const std::vector<std::int32_t> ids =
        first == 0 ? std::vector<std::int32_t>{3, 0, 2, 1} : std::vector<std::int32_t>{0};
    const auto tokens = static_cast<index>(ids.size());
    std::vector<float> y(ids.size() * dim, -1);
    const ClAddress out = on_device(y);
    const Embedding<Cl> op{
        .table = {{whole.memory, whole.offset + first * stride}, DType::i8, {vocab - first, dim}, {stride, 1}},
        .row_scale = {scales, DType::f32, {vocab - first}},
        .ids = {on_device(ids), DType::i32, {tokens}},
        .y = {out, DType::f32, {tokens, dim}}};
    const Status status = run(*cl_, op);
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(finish(*cl_).ok());
    ASSERT_TRUE(cl_->download(std::as_writable_bytes(std::span(y)), out).ok());
    for (std::size_t k = 0; k < y.size(); ++k)
      ASSERT_EQ(y[k], static_cast<float>(20 * (first + ids[k / dim]) + static_cast<index>(k) % dim)) << k;
  }
}

}  // namespace
}  // namespace inlay::test
