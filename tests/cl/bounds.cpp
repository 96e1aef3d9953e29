// A view or a workspace that reaches beyond its buffer is refused before anything is enqueued, whoever made the buffer.
// This program stands between Inlay and the loader where a buffer is asked for its size.
#include <gtest/gtest.h>

#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/dequantize.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>

#include "measure/behind.hpp"
#include "tests/support/requirements.hpp"

namespace {

cl_int answer = CL_SUCCESS;  // in place of the driver's, where it is none

}  // namespace

extern "C" cl_int clGetMemObjectInfo(cl_mem buffer, cl_mem_info what, size_t n, void* value, size_t* bytes) {
  BEHIND(clGetMemObjectInfo);
  return answer == CL_SUCCESS ? behind(buffer, what, n, value, bytes) : answer;
}

namespace inlay::test {
namespace {

enum class Owner { pool, engine, host };

class ClBounds : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Cl::make();
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
  }
  void TearDown() override {
    answer = CL_SUCCESS;
    if (cl_) {
      EXPECT_TRUE(cl_->finish().ok());
    }
    for (cl_mem buffer : of_engine_) clReleaseMemObject(buffer);
  }

  cl_mem of_engine(std::size_t bytes, cl_mem_flags flags = 0, void* host = nullptr) {
    of_engine_.push_back(clCreateBuffer(cl_->context(), CL_MEM_READ_WRITE | flags, bytes, host, nullptr));
    return of_engine_.back();
  }
  cl_mem of_pool(std::size_t bytes) { return cl_->allocate(bytes)->memory; }
  // Null where the device would copy the host's memory.
  cl_mem buffer(Owner owner, std::size_t bytes) {
    if (owner == Owner::engine) return of_engine(bytes);
    if (owner == Owner::pool) return of_pool(bytes);
    host_.resize(bytes + 64);
    const auto mapped = cl_->map(std::span(host_).first(bytes));
    return mapped && *mapped ? (*mapped)->memory : nullptr;
  }

  template <class Op> void fits(const Op& op, const SpaceWorkspace<Cl>& workspace = {}) {
    const Status status = run(*cl_, op, workspace);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_TRUE(cl_->finish().ok());
  }
  template <class Op> void refuses(const Op& op, std::string_view words, const SpaceWorkspace<Cl>& workspace = {}) {
    const Status status = run(*cl_, op, workspace);
    EXPECT_EQ(status.code(), StatusCode::invalid_argument);
    EXPECT_EQ(status.message(), words);
  }

  std::optional<Cl> cl_;
  std::vector<cl_mem> of_engine_;
  std::vector<std::byte> host_;
};

class ClBoundsBy : public ClBounds, public ::testing::WithParamInterface<Owner> {};

// What is written is the caller's `y`, what is read `a`, by turns the view in question.
TEST_P(ClBoundsBy, a_row_ends_with_its_buffer) {
  // 1000 bytes: the pool's buffer has some more, which nobody asked for.
  constexpr std::ptrdiff_t bytes = 1000, most = std::numeric_limits<std::ptrdiff_t>::max();
  cl_mem const tight = buffer(GetParam(), bytes), wide = of_pool(4096);
  if (tight == nullptr) GTEST_SKIP() << "not tested: ClBoundsBy.a_row_ends (cl): no memory of the host's";
  const auto read = [&](std::ptrdiff_t offset) {
    const View<2, Cl> row({wide, 0}, DType::f32, {1, 64});
    return Add<Cl>{.a = {{tight, offset}, DType::f32, {1, 64}}, .b = row, .y = row};
  };
  const auto written = [&](std::ptrdiff_t offset) {
    const ConstView<2, Cl> row({wide, 0}, DType::f32, {1, 64});
    return Add<Cl>{.a = row, .b = row, .y = {{tight, offset}, DType::f32, {1, 64}}};
  };
  for (std::ptrdiff_t offset : {0, 4, 744}) {
    fits(read(offset));
    if (GetParam() != Owner::host) fits(written(offset));  // a buffer to read from
  }
  for (std::ptrdiff_t offset :
       {std::ptrdiff_t{-64}, std::ptrdiff_t{748}, std::ptrdiff_t{1000}, most / 4 * 4, -most + 3}) {
    const std::string words = " begins at byte " + std::to_string(offset) +
                              " of a buffer of 1000 bytes and covers bytes 0..255 from there; it must lie within the "
                              "buffer";
    refuses(read(offset), "a" + words);
    refuses(written(offset), "y" + words);
  }
}
INSTANTIATE_TEST_SUITE_P(
    , ClBoundsBy, ::testing::Values(Owner::pool, Owner::engine, Owner::host), [](const auto& owner) {
      return std::string(owner.param == Owner::pool ? "pool" : owner.param == Owner::engine ? "engine" : "host");
    });

// Rows apart, rows backwards, and columns of a larger matrix: the first and the last byte count.
TEST_F(ClBounds, strides) {
  cl_mem const tight = of_engine(1024), wide = of_pool(4096);
  const auto op = [&](std::ptrdiff_t offset, index stride) {
    const View<2, Cl> rows({wide, 0}, DType::f32, {4, 8});
    return Add<Cl>{.a = {{tight, offset}, DType::f32, {4, 8}, {stride, 1}}, .b = rows, .y = rows};
  };
  fits(op(0, 82));
  fits(op(1024 - 32, -82));
  refuses(op(12, 82),
          "a begins at byte 12 of a buffer of 1024 bytes and covers bytes 0..1015 from there; it must lie within the "
          "buffer");
  refuses(op(980, -82),
          "a begins at byte 980 of a buffer of 1024 bytes and covers bytes -984..31 from there; it must lie within the "
          "buffer");
}

// Two elements share a byte, and a row of an odd number takes a half of its last one.
TEST_F(ClBounds, four_bits) {
  cl_mem const tight = of_engine(50), wide = of_pool(4096);
  const auto op = [&](index columns) {
    return Dequantize<Cl>{.x = {{tight, 0}, DType::u4, {1, columns}},
                          .scale = {{wide, 0}, DType::f32, {1, 1}},
                          .y = {{wide, 64}, DType::f32, {1, columns}}};
  };
  fits(op(99));
  fits(op(100));
  refuses(op(101),
          "x begins at byte 0 of a buffer of 50 bytes and covers bytes 0..50 from there; it must lie within "
          "the buffer");
}

TEST_F(ClBounds, a_view_without_elements_lies_nowhere) {
  const View<2, Cl> none({of_engine(64), 4096}, DType::f32, {0, 8});
  fits(Add<Cl>{.a = none, .b = none, .y = none});
}

TEST_F(ClBounds, a_list_names_its_view) {
  cl_mem const wide = of_pool(1 << 16), tight = of_engine(256);
  const ConstView<3, Cl> whole({wide, 0}, DType::f32, {8, 1, 16}), small({tight, 0}, DType::f32, {8, 1, 16});
  const ConstView<3, Cl> keys[] = {whole, whole}, values[] = {whole, small};
  const IncreFlashAttention<Cl> op{.q = {{wide, 4096}, DType::f32, {2, 1, 1, 16}},
                                   .k_list = keys,
                                   .v_list = values,
                                   .out = {{wide, 8192}, DType::f32, {2, 1, 1, 16}}};
  refuses(op,
          "v_list[1] begins at byte 0 of a buffer of 256 bytes and covers bytes 0..511 from there; it must lie within "
          "the buffer",
          {{wide, 16384}, workspace_bytes(*cl_, op)});
}

TEST_F(ClBounds, a_workspace_lies_within_its_buffer) {
  cl_mem const wide = of_pool(4096), tight = of_engine(128);
  const CopyBlocks<Cl> op{.k_cache = {{wide, 0}, DType::f32, {2, 1, 1, 4, 2}},
                          .pairs = {{wide, 2048}, DType::i64, {1, 2}}};
  const std::int64_t pair[] = {0, 1};
  ASSERT_TRUE(cl_->upload({wide, 2048}, std::as_bytes(std::span(pair))).ok());
  const std::size_t needed = workspace_bytes(*cl_, op);
  ASSERT_EQ(needed, 64u);
  fits(op, {{tight, 0}, needed});
  fits(op, {{tight, 64}, needed});
  const auto words = [](const char* at, const char* last) {
    return std::string("workspace begins at byte ") + at + " of a buffer of 128 bytes and covers bytes 0.." + last +
           " from there; it must lie within the buffer";
  };
  refuses(op, words("128", "63"), {{tight, 128}, needed});
  refuses(op, words("-64", "63"), {{tight, -64}, needed});
  refuses(op, words("64", "64"), {{tight, 64}, needed + 1});
  refuses(op, words("0", "9223372036854775806"), {{tight, 0}, std::numeric_limits<std::size_t>::max()});
  refuses(op, "workspace begins at byte 0 of no buffer; it must have one", {{nullptr, 0}, needed});
}

// The queue's own copies go the same way, and the host's side is nobody's buffer.
TEST_F(ClBounds, swapped_blocks) {
  cl_mem const tight = of_engine(60);
  std::vector<float> host(16);
  const std::int64_t pair[] = {0, 1};
  const PagedView<Host> there(host.data(), {2, 1, 1, 4, 2});
  const PagedView<Cl> here({tight, 0}, DType::f32, {2, 1, 1, 4, 2});
  const auto words = [](const char* field) {
    return std::string(field) +
           " begins at byte 0 of a buffer of 60 bytes and covers bytes 0..63 from there; it must lie within the buffer";
  };
  refuses(SwapBlocks<Cl, Host>{.source = here, .target = there, .pairs = {pair, {1, 2}}}, words("source"));
  refuses(SwapBlocks<Host, Cl>{.source = there, .target = here, .pairs = {pair, {1, 2}}}, words("target"));
}

TEST_F(ClBounds, no_buffer_at_all) {
  const View<2, Cl> row({of_pool(1024), 0}, DType::f32, {1, 64});
  refuses(Add<Cl>{.a = row, .b = {{nullptr, 256}, DType::f32, {1, 64}}, .y = row},
          "b begins at byte 256 of no buffer; it must have one");
}

// Buffers are asked anew: what has a handle today may have been another's yesterday.
TEST_F(ClBounds, a_smaller_buffer_with_the_handle_of_one_that_is_gone) {
  cl_mem const wide = of_pool(1024);
  const auto op = [&](cl_mem buffer) {
    const View<2, Cl> row({wide, 0}, DType::f32, {1, 64});
    return Add<Cl>{.a = {{buffer, 256}, DType::f32, {1, 64}}, .b = row, .y = row};
  };
  for (int i = 0; i < 4; ++i) {
    cl_mem const large = clCreateBuffer(cl_->context(), CL_MEM_READ_WRITE, 512, nullptr, nullptr);
    fits(op(large));
    clReleaseMemObject(large);
    cl_mem const small = clCreateBuffer(cl_->context(), CL_MEM_READ_WRITE, 508, nullptr, nullptr);
    refuses(op(small),
            "a begins at byte 256 of a buffer of 508 bytes and covers bytes 0..255 from there; it must lie "
            "within the buffer");
    clReleaseMemObject(small);
  }
}

TEST_F(ClBounds, a_driver_that_does_not_answer_is_named) {
  const View<2, Cl> row({of_pool(1024), 0}, DType::f32, {1, 64});
  const Add<Cl> op{.a = row, .b = {{of_engine(256), 0}, DType::f32, {1, 64}}, .y = row};
  answer = CL_INVALID_MEM_OBJECT;
  const Status status = run(*cl_, op);
  EXPECT_EQ(status.code(), StatusCode::internal);
  EXPECT_EQ(status.message(), "b: asking a buffer for its size and place: CL_INVALID_MEM_OBJECT (-38)");
  answer = CL_SUCCESS;
  fits(op);
}

}  // namespace
}  // namespace inlay::test
