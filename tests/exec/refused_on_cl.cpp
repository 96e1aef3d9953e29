// Devices that cannot do what is asked: this program stands between Inlay and the loader, and answers for the device.
// Each is a Status that says why, and the process goes on.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <utility>

#include <inlay/cl.hpp>

#include "measure/behind.hpp"
#include "tests/exec/support/on_cl.hpp"
#include "tests/exec/support/random_session.hpp"

namespace {

struct Answers {
  bool compiles = true;
  cl_ulong max_allocation = 0;  // 0: the device's own
} answers;

}  // namespace

extern "C" cl_int clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t room, void* to, size_t* bytes) {
  BEHIND(clGetDeviceInfo);
  const cl_int error = behind(device, what, room, to, bytes);
  if (error != CL_SUCCESS || to == nullptr) return error;
  constexpr cl_bool no = CL_FALSE;
  if (what == CL_DEVICE_COMPILER_AVAILABLE && !answers.compiles) std::memcpy(to, &no, sizeof no);
  if (what == CL_DEVICE_MAX_MEM_ALLOC_SIZE && answers.max_allocation != 0)
    std::memcpy(to, &answers.max_allocation, sizeof answers.max_allocation);
  return error;
}

namespace inlay::exec::test {
namespace {

class RefusedOnCl : public OnCl {
 protected:
  void TearDown() override { answers = {}; }

  static bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }
  // A step of a small model.
  static Status step(Cl& cl, const ModelConfig& config = tiny()) {
    auto weights = random_weights(config, "f32", serial(), 7);
    if (!weights) return std::move(weights.error());
    auto made = Session::make(config, std::move(*weights), Chain(std::ref(cl)), {.context = config.context});
    return made ? made->append(tokens(3, config.vocab)) : std::move(made.error());
  }
};

TEST_F(RefusedOnCl, a_device_without_a_compiler) {
  Cl& engine = inlay::test::cl_devices_to_test().front().cl();
  answers.compiles = false;
  const auto made = Cl::make(), beside = Cl::make(engine.context(), engine.queue());
  const auto list = cl_devices();
  answers.compiles = true;
  ASSERT_FALSE(made.has_value() || beside.has_value() || list.has_value());
  for (const Status* status : {&made.error(), &beside.error(), &list.error()}) {
    EXPECT_EQ(status->code(), StatusCode::unsupported);
    EXPECT_TRUE(holds(status->message(), engine.device().name + " has no compiler")) << status->message();
  }
  EXPECT_TRUE(Cl::make().has_value());
  const Status passed = step(engine);
  EXPECT_TRUE(passed.ok()) << passed.message();
}

TEST_F(RefusedOnCl, weights_that_are_more_than_a_buffer_holds) {
  constexpr cl_ulong limit = 65536;
  answers.max_allocation = limit;
  auto small = Cl::make();
  ASSERT_TRUE(small.has_value()) << small.error().message();
  ModelConfig large = tiny();
  large.vocab = 1024;
  const std::size_t bytes = 2 * 1024 * 48;  // the embedding, f16
  const Status refused = step(*small, large);
  EXPECT_EQ(refused.code(), StatusCode::out_of_memory) << refused.message();
  for (std::size_t number : {bytes, std::size_t{limit}})
    EXPECT_TRUE(holds(refused.message(), std::to_string(number))) << refused.message();
  const Status passed = step(*small);
  EXPECT_TRUE(passed.ok()) << passed.message();
}

// In a process of its own that has not asked before: PoCL looks at its cache once. It is a folder within a file.
TEST(RefusedOnClDeathTest, a_cache_that_pocl_cannot_write) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        setenv("POCL_CACHE_DIR", "/proc/self/exe/cache", 1);
        for (int time = 0; time < 2; ++time) {
          const auto made = Cl::make();
          if (made && made->device().platform != "Portable Computing Language") continue;  // there are others
          if (made || made.error().code() != StatusCode::not_found) std::exit(1);
          if (made.error().message().find("POCL_CACHE_DIR") == std::string_view::npos) std::exit(2);
        }
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace inlay::exec::test
