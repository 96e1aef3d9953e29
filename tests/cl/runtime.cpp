// What stands between an operator and a device: choice, memory, programs, errors. Each failure is a Status, and the
// process goes on.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/ops/rms_norm.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/support/cl_devices.hpp"
#include "tests/support/files.hpp"

namespace inlay::test {
namespace {

class ClRuntime : public ::testing::Test {
 protected:
  void SetUp() override {
    auto made = Cl::make();
    INLAY_NEEDS(made.has_value(), "cl", std::string(made.error().message()));
    cl_.emplace(std::move(*made));
  }

  static bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

  std::optional<Cl> cl_;
};

// y = x / sqrt(mean of x^2 + eps) of 64 numbers on `cl`: the largest error.
double norm_error(Cl& cl, double eps = 0) {
  std::vector<float> x(64), weight(64, 1), y(64);
  double squares = 0;
  for (int i = 0; i < 64; ++i) x[i] = static_cast<float>(i - 20), squares += (i - 20.0) * (i - 20.0);
  const Status status = run_from_host(cl, RmsNorm<Host>{.x = ConstView<2>(x.data(), {1, 64}),
                                                        .weight = ConstView<1>(weight.data(), {64}),
                                                        .y = View<2>(y.data(), {1, 64}),
                                                        .eps = static_cast<float>(eps)});
  EXPECT_TRUE(status.ok()) << status.message();
  double worst = 0;
  for (int i = 0; i < 64; ++i) worst = std::max(worst, std::abs(y[i] - x[i] / std::sqrt(squares / 64 + eps)));
  return worst;
}

TEST_F(ClRuntime, devices_are_listed_with_what_they_say) {
  const auto devices = cl_devices();
  ASSERT_TRUE(devices.has_value());
  for (const ClDevice& d : *devices) {
    EXPECT_FALSE(d.name.empty());
    EXPECT_FALSE(d.platform.empty());
    EXPECT_TRUE(d.language == "CL1.2" || d.language == "CL2.0" || d.language == "CL3.0") << d.language;
    EXPECT_GT(d.compute_units, 0u);
    EXPECT_GT(d.max_work_group, 0u);
    EXPECT_GE(d.global_bytes, d.max_allocation);
  }
}

TEST_F(ClRuntime, an_extension_is_a_whole_word) {
  ClDevice device;
  device.extensions = {"cl_khr_fp16", "cl_khr_subgroup_shuffle_relative"};
  EXPECT_TRUE(device.has("cl_khr_fp16"));
  EXPECT_FALSE(device.has("cl_khr_subgroup_shuffle"));
}

TEST_F(ClRuntime, a_name_that_no_device_has_is_refused_with_those_that_there_are) {
  for (bool by_environment : {false, true}) {
    if (by_environment) setenv("INLAY_CL_DEVICE", "nonsense", 1);
    const auto refused = Cl::make({.device = by_environment ? "" : "nonsense"});
    unsetenv("INLAY_CL_DEVICE");
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), StatusCode::not_found);
    EXPECT_TRUE(holds(refused.error().message(), "nonsense")) << refused.error().message();
    EXPECT_TRUE(holds(refused.error().message(), cl_->device().name)) << refused.error().message();
  }
  std::string shout = cl_->device().name;
  for (char& c : shout) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  EXPECT_TRUE(Cl::make({.device = shout}).has_value());
}

TEST_F(ClRuntime, a_language_that_is_none_or_too_new_is_refused) {
  const auto none = Cl::make({.language = "CL9.9"});
  ASSERT_FALSE(none.has_value());
  EXPECT_TRUE(holds(none.error().message(), "CL9.9")) << none.error().message();
  EXPECT_EQ(Cl::make({.language = "CL1.2"})->options().language, "CL1.2");
  EXPECT_EQ(cl_->options().language, cl_->device().language);
}

TEST_F(ClRuntime, more_than_a_buffer_may_have_is_refused) {
  const std::size_t limit = cl_->device().max_allocation;
  const auto refused = cl_->allocate(limit + 1);
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().code(), StatusCode::out_of_memory);
  for (std::size_t number : {limit, limit + 1})
    EXPECT_TRUE(holds(refused.error().message(), std::to_string(number))) << refused.error().message();
  EXPECT_LT(norm_error(*cl_), 1e-6);
}

TEST_F(ClRuntime, what_was_released_is_given_out_again) {
  const auto first = cl_->allocate(1000);
  ASSERT_TRUE(first.has_value());
  cl_->release(*first);
  const std::size_t before = cl_->allocations();
  for (std::size_t bytes : {1000, 1001, 1023}) {
    const auto again = cl_->allocate(bytes);
    ASSERT_TRUE(again.has_value());
    EXPECT_EQ(*again, *first);
    cl_->release(*again);
  }
  EXPECT_EQ(cl_->allocations(), before);
  // Two at a time are two.
  const auto one = cl_->allocate(1000), other = cl_->allocate(1000);
  ASSERT_TRUE(one && other);
  EXPECT_NE(one->memory, other->memory);
  cl_->release(*one), cl_->release(*other);
}

TEST_F(ClRuntime, operators_of_one_shape_ask_the_driver_for_memory_once) {
  norm_error(*cl_);
  const std::size_t before = cl_->allocations();
  for (int i = 0; i < 5; ++i) norm_error(*cl_);
  EXPECT_EQ(cl_->allocations(), before);
}

// They are on their way when upload returns; their source may change at once.
TEST_F(ClRuntime, small_uploads_keep_their_bytes) {
  constexpr std::size_t bytes = 100, count = 600;
  const auto buffer = cl_->allocate(bytes * count);
  ASSERT_TRUE(buffer.has_value());
  std::vector<std::byte> source(bytes), all(bytes * count);
  for (std::size_t i = 0; i < count; ++i) {
    std::fill(source.begin(), source.end(), static_cast<std::byte>(i));
    ASSERT_TRUE(cl_->upload({buffer->memory, static_cast<std::ptrdiff_t>(i * bytes)}, source).ok());
    ASSERT_TRUE(i != 250 || cl_->finish().ok());
  }
  ASSERT_TRUE(cl_->download(all, *buffer).ok());
  for (std::size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<std::byte>(i / bytes)) << i;
  cl_->release(*buffer);
}

// Each launch of a step has an object of its own, the next step's launches have them again; a literal may lie in two
// places.
TEST_F(ClRuntime, a_kernel_has_the_numbers_of_its_last_launch) {
  const std::string other_literal = "add";
  const auto key = [](const char* stem) {
    return cl::ProgramKey(stem).number("LANES", 1).type("A", DType::f32).type("B", DType::f32);
  };
  const auto kernel = cl_->runtime().programs().kernel(key("add"), "add");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message();
  const auto next = cl_->runtime().programs().kernel(key(other_literal.c_str()), other_literal.c_str());
  EXPECT_NE(*kernel, *next);
  ASSERT_TRUE(cl_->finish().ok());
  EXPECT_EQ(*kernel, *cl_->runtime().programs().kernel(key(other_literal.c_str()), other_literal.c_str()));
  EXPECT_EQ(*next, *cl_->runtime().programs().kernel(key("add"), "add"));
  EXPECT_FALSE(key("add") == key("add").flag("ALIGNED", true));
  EXPECT_FALSE(cl::ProgramKey("add").number("LANES", 1) == cl::ProgramKey("add").number("LANES", 2));
  EXPECT_FALSE(cl::ProgramKey("add").number("X", 0) == cl::ProgramKey("add").type("X", static_cast<DType>(0)));
  cl::ProgramKey large("add");
  for (int i = 0; i <= cl::ProgramKey::max_definitions; ++i) large.number("N", i);
  const auto refused = cl_->runtime().programs().kernel(large, "add");
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(holds(refused.error().message(), "defines more than 24 names")) << refused.error().message();
  for (double eps : {100.0, 200.0, 100.0}) EXPECT_LT(norm_error(*cl_, eps), 1e-6) << eps;
}

// Numbers of one size beside one another, which take each other's values.
TEST_F(ClRuntime, arguments_are_told_apart) {
  auto program = cl_->runtime().programs().build(
      "kernel void list(global int* y, int a, int b, int c) { y[0] = a, y[1] = b, y[2] = c; }", "", "list");
  ASSERT_TRUE(program.has_value()) << program.error().message();
  cl::Kernel kernel(clCreateKernel(*program, "list", nullptr));
  clReleaseProgram(*program);
  const auto y = cl_->allocate(12);
  ASSERT_TRUE(y.has_value());
  for (int i = 0; i < 27; ++i) {
    const cl_int wanted[] = {i % 3, i / 3 % 3, i / 9};
    cl_int got[3] = {};
    ASSERT_EQ(kernel.set(0, y->memory, cl_->runtime().memory()), CL_SUCCESS);
    for (cl_uint k = 0; k < 3; ++k) ASSERT_EQ(kernel.set(k + 1, wanted[k]), CL_SUCCESS);
    ASSERT_TRUE(cl_->runtime().enqueue(kernel.object(), "list", {.groups = {1}, .lanes = {}}).ok());
    ASSERT_TRUE(cl_->download(std::as_writable_bytes(std::span(got)), *y).ok());
    for (int k = 0; k < 3; ++k) ASSERT_EQ(got[k], wanted[k]) << "launch " << i << ", argument " << k + 1;
  }
  cl_->release(*y);
}

TEST_F(ClRuntime, host_memory_is_mapped_where_it_is_shared) {
  std::vector<std::byte> host(1 << 16, std::byte{7});
  const auto mapped = cl_->map(host);
  ASSERT_TRUE(mapped.has_value());
  if (!cl_->device().is_cpu) GTEST_SKIP() << "not tested: ClRuntime.host_memory_is_mapped (cl): no CPU device";
  ASSERT_TRUE(mapped->has_value());
  host[100] = std::byte{9};  // no copy: seen at once
  std::byte seen{};
  ASSERT_TRUE(cl_->download({&seen, 1}, {(*mapped)->memory, 100}).ok());
  EXPECT_EQ(seen, std::byte{9});
  cl_->release(**mapped);
  EXPECT_FALSE(cl_->map({})->has_value());
}

TEST_F(ClRuntime, a_program_that_does_not_build_shows_the_compilers_words) {
  const auto refused =
      cl_->runtime().programs().build("kernel void broken() { undeclared = 1; }", "-D WIDTH=4", "broken");
  ASSERT_FALSE(refused.has_value());
  for (std::string_view word : {"broken", "-D WIDTH=4", "undeclared", "CL_BUILD_PROGRAM_FAILURE"})
    EXPECT_TRUE(holds(refused.error().message(), word)) << word << " lacks in " << refused.error().message();
  EXPECT_LT(norm_error(*cl_), 1e-6);
}

TEST_F(ClRuntime, build_options_reach_the_compiler) {
  auto plain = Cl::make({.build_options = "-cl-opt-disable"});
  ASSERT_TRUE(plain.has_value()) << plain.error().message();
  EXPECT_LT(norm_error(*plain), 1e-6);
  auto wrong = Cl::make({.build_options = "-D WIDTH=oats"});
  ASSERT_TRUE(wrong.has_value()) << wrong.error().message();
  const auto refused = wrong->runtime().programs().kernel(cl::ProgramKey("add").number("LANES", 1), "add");
  ASSERT_FALSE(refused.has_value());
  EXPECT_TRUE(holds(refused.error().message(), "-D WIDTH=oats")) << refused.error().message();
}

TEST_F(ClRuntime, a_kernel_that_does_not_run_is_a_status) {
  const cl::ProgramKey key = cl::ProgramKey("add").number("LANES", 1).type("A", DType::f32).type("B", DType::f32);
  auto kernel = cl_->runtime().programs().kernel(key, "add");
  ASSERT_TRUE(kernel.has_value()) << kernel.error().message();
  // Its arguments were never set.
  const Status failed = cl_->runtime().enqueue((*kernel)->object(), "add", {.groups = {4}, .lanes = {1}});
  ASSERT_FALSE(failed.ok());
  EXPECT_TRUE(holds(failed.message(), "CL_INVALID_KERNEL_ARGS")) << failed.message();
  const auto missing = cl_->runtime().programs().kernel(key, "subtract");
  ASSERT_FALSE(missing.has_value());
  EXPECT_TRUE(holds(missing.error().message(), "subtract")) << missing.error().message();
  EXPECT_FALSE(cl_->runtime().programs().kernel(cl::ProgramKey("no_such_source"), "add").has_value());
  EXPECT_LT(norm_error(*cl_), 1e-6);
}

// Programs on disk: found again, and never trusted.
TEST_F(ClRuntime, a_cache_is_filled_used_and_mended) {
  namespace fs = std::filesystem;
  const exec::test::TemporaryDirectory folder;
  const std::string cache = folder / "programs";
  const auto use = [&] {
    auto cl = Cl::make({.cache = cache});
    ASSERT_TRUE(cl.has_value());
    EXPECT_LT(norm_error(*cl), 1e-6);
  };
  const auto entries = [&] {
    std::vector<fs::path> list;
    for (const auto& entry : fs::directory_iterator(cache)) list.push_back(entry.path());
    return list;
  };
  const auto read = [](const fs::path& file) { return exec::test::read_text(file.string()); };
  use();
  ASSERT_EQ(entries().size(), 1u);
  const fs::path entry = entries()[0];
  const std::string whole = read(entry);
  const auto written = fs::last_write_time(entry);
  use();
  EXPECT_EQ(fs::last_write_time(entry), written) << "the entry was not used but made anew";
  for (std::size_t at : {std::size_t{0}, std::size_t{12}, whole.size() / 2, whole.size() - 1}) {
    std::string broken = whole;
    broken[at] = static_cast<char>(broken[at] ^ 0x40);
    exec::test::write_text(entry, broken);
    use();
    EXPECT_NE(read(entry), broken) << "byte " << at;
  }
  for (std::size_t length : {std::size_t{0}, std::size_t{5}, whole.size() / 2, whole.size() - 1}) {
    exec::test::write_text(entry, std::string_view(whole).substr(0, length));
    use();
    EXPECT_GT(read(entry).size(), length);
  }
  EXPECT_EQ(entries().size(), 1u) << "something was left behind";
}

TEST_F(ClRuntime, a_cache_that_cannot_be_written_is_done_without) {
  const exec::test::TemporaryDirectory folder;
  exec::test::write_text(folder / "file", "in the way");
  auto cl = Cl::make({.cache = folder / "file/programs"});
  ASSERT_TRUE(cl.has_value());
  EXPECT_LT(norm_error(*cl), 1e-6);
}

// In a process of its own that has not asked before: the loader looks for platforms once.
TEST(ClRuntimeDeathTest, without_a_platform) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("OCL_ICD_VENDORS", "/nowhere", 1);
        const auto cl = Cl::make();
        if (cl || cl.error().code() != StatusCode::not_found) std::exit(1);
        std::exit(cl.error().message().find("pocl-opencl-icd") != std::string_view::npos ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// PoCL would end the process.
TEST_F(ClRuntime, without_a_linker_on_the_path) {
  if (cl_->device().platform != "Portable Computing Language")
    GTEST_SKIP() << "not tested: ClRuntime.without_a_linker (cl): no PoCL";
  const std::string path = std::getenv("PATH");
  setenv("PATH", "/nowhere", 1);
  const auto made = Cl::make();
  const auto kernel = cl_->runtime().programs().kernel(cl::ProgramKey("add").number("LANES", 1), "add");
  setenv("PATH", path.c_str(), 1);
  ASSERT_FALSE(made.has_value());
  ASSERT_FALSE(kernel.has_value());
  for (const Status* refused : {&made.error(), &kernel.error()}) EXPECT_TRUE(holds(refused->message(), "`ld`"));
  EXPECT_LT(norm_error(*cl_), 1e-6);
}

}  // namespace
}  // namespace inlay::test
