// An engine's context with two devices, the second of which is ours: programs are cached as they are with one. And
// files that several threads write.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/core/staging.hpp>
#include <inlay/ops/add.hpp>

#include "files/whole_file.hpp"
#include "measure/behind.hpp"
#include "tests/support/files.hpp"
#include "tests/support/requirements.hpp"

// PoCL 3.1 gives those of the devices that a program was built for; OpenCL refuses a list without room for all devices.
extern "C" cl_int clGetProgramInfo(cl_program program, cl_program_info what, size_t n, void* value, size_t* size) {
  BEHIND(clGetProgramInfo);
  cl_uint count = 0;
  behind(program, CL_PROGRAM_NUM_DEVICES, sizeof count, &count, nullptr);
  const bool is_list = what == CL_PROGRAM_BINARY_SIZES || what == CL_PROGRAM_BINARIES;
  if (is_list && value != nullptr && n < count * sizeof(size_t)) return CL_INVALID_VALUE;
  return behind(program, what, n, value, size);
}

namespace inlay::test {
namespace {

// Before the loader asks PoCL for its devices.
const int of_pocl = setenv("POCL_DEVICES", "pthread pthread", 1);

class ClSeveralDevices : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(of_pocl, 0);
    const auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
    cl_platform_id platform = nullptr;
    cl_device_id device = nullptr;
    clGetCommandQueueInfo(cl->queue(), CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
    clGetDeviceInfo(device, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr);
    cl_uint count = 0;
    clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 2, devices_.data(), &count);
    if (count < 2) GTEST_SKIP() << "not tested: ClSeveralDevices (cl): one device";
    context_ = clCreateContext(nullptr, 2, devices_.data(), nullptr, nullptr, nullptr);
    ASSERT_NE(context_, nullptr);
  }
  void TearDown() override {
    if (context_ != nullptr) clReleaseContext(context_);
  }

  std::array<cl_device_id, 2> devices_{};
  cl_context context_ = nullptr;
};

TEST_F(ClSeveralDevices, a_cache_is_filled_and_used) {
  for (cl_device_id device : devices_) {
    const exec::test::TemporaryDirectory folder;
    const std::string cache = folder / "programs";
    cl_command_queue queue = clCreateCommandQueueWithProperties(context_, device, nullptr, nullptr);
    const auto use = [&] {
      auto cl = Cl::make(context_, queue, {.cache = cache});
      ASSERT_TRUE(cl.has_value()) << cl.error().message();
      std::vector<float> a(64, 1), y(64);
      const Status status =
          run_from_host(*cl, Add<Host>{.a = {a.data(), {1, 64}}, .b = {a.data(), {1, 64}}, .y = {y.data(), {1, 64}}});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_EQ(y, std::vector<float>(64, 2));
    };
    use();
    ASSERT_TRUE(std::filesystem::exists(cache)) << "nothing was cached";
    std::vector<std::filesystem::path> entries;
    for (const auto& entry : std::filesystem::directory_iterator(cache)) entries.push_back(entry.path());
    ASSERT_EQ(entries.size(), 1u);
    EXPECT_GT(std::filesystem::file_size(entries[0]), 1000u);
    const auto written = std::filesystem::last_write_time(entries[0]);
    use();
    EXPECT_EQ(std::filesystem::last_write_time(entries[0]), written) << "the entry was not used but made anew";
    clReleaseCommandQueue(queue);
  }
}

// Two Cl of one process may build one program at once.
TEST(ClWholeFile, of_several_threads) {
  const exec::test::TemporaryDirectory folder;
  const std::string file = folder / "entry";
  std::vector<std::thread> threads;
  std::array<int, 3> failed{};
  for (std::size_t i = 0; i < failed.size(); ++i)
    threads.emplace_back([&, i] {
      const std::string text(std::size_t{1} << 16, static_cast<char>('a' + i));
      for (int n = 0; n < 300; ++n) {
        failed[i] += !files::write_whole(file, text).ok();
        const std::string seen = exec::test::read_text(file);
        failed[i] += seen != std::string(text.size(), seen.empty() ? '-' : seen[0]);
      }
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failed, (std::array<int, 3>{}));
  int files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(folder / ".")) ++files;
  EXPECT_EQ(files, 1) << "something was left behind";
}

}  // namespace
}  // namespace inlay::test
