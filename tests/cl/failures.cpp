// Calls of OpenCL that fail: this program stands between Inlay and the loader. Each call that a Cl makes in its life
// fails once, and then all do, as on a lost device: a Status names what failed, nothing is left behind, and another try
// is right.
#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // a queue as OpenCL 1.2 makes it
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/kv_cache.hpp>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/cl/support/failing_calls.hpp"
#include "tests/support/files.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

bool holds(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// A Cl from its making to its end. What fails is tried once more.
class Life {
 public:
  explicit Life(const ClOptions& options) {
    std::optional<Cl> cl;
    attempt([&] {
      auto made = Cl::make(options);
      if (made) cl.emplace(std::move(*made));
      return made ? Status() : std::move(made.error());
    });
    if (cl) live(*cl);
    calls = plan.calls;
  }
  // On an engine's context and queue.
  Life(cl_context context, cl_command_queue queue) {
    std::optional<Cl> cl;
    attempt([&] {
      auto made = Cl::make(context, queue);
      if (made) cl.emplace(std::move(*made));
      return made ? Status() : std::move(made.error());
    });
    if (cl) live(*cl);
    calls = plan.calls;
  }

  std::vector<std::string> failed_once, failed_twice;  // their words
  bool right = false;
  int calls = 0;  // but for those of the end

 private:
  template <class Call> bool attempt(Call&& call) {
    const Status first = call();
    if (first.ok()) return true;
    failed_once.emplace_back(first.message());
    const Status again = call();
    if (!again.ok()) failed_twice.emplace_back(again.message());
    return again.ok();
  }

  void live(Cl& cl) {
    constexpr index vocab = 1024, dim = 8;
    std::vector<float> table(vocab * dim), got(2 * dim), pool(16), swapped(16);
    for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
    for (std::size_t i = 0; i < pool.size(); ++i) pool[i] = static_cast<float>(i + 1);
    const std::array<std::int32_t, 2> ids = {700, vocab};  // the second is one too many
    ClAddress there, of_ids, y, of_pool, of_swapped;
    const auto put = [&](ClAddress& to, const auto& from) {
      const auto bytes = std::as_bytes(std::span(from));
      return attempt([&] {
               auto made = cl.allocate(bytes.size());
               if (made) to = *made;
               return made ? Status() : std::move(made.error());
             }) &&
             attempt([&] { return cl.upload(to, bytes); });
    };
    const std::int64_t pair[] = {0, 1};
    bool all = put(there, table) && put(of_ids, ids) && put(y, got) && put(of_pool, pool) && put(of_swapped, swapped);
    all = attempt([&] {
            const Embedding<Cl> rows{.table = {there, DType::f32, {vocab, dim}},
                                     .ids = {of_ids, DType::i32, {2}},
                                     .y = {y, DType::f32, {2, dim}}};
            return all ? inlay::run(cl, rows) : Status();
          }) &&
          all;
    // The offence is told once, at the first wait that succeeds.
    int told = 0;
    all = attempt([&] {
            Status met = cl.finish();
            if (met.code() != StatusCode::invalid_argument) return met;
            EXPECT_TRUE(holds(met.message(), "ids[1] is 1024")) << met.message();
            ++told;
            return Status();
          }) &&
          all;
    all = attempt([&] {
            const PagedView<Cl> source(of_pool, DType::f32, {2, 1, 1, 4, 2});
            const PagedView<Cl> target(of_swapped, DType::f32, {2, 1, 1, 4, 2});
            const SwapBlocks<Cl> copy{.source = source, .target = target, .pairs = {pair, DType::i64, {1, 2}}};
            return all ? inlay::run(cl, copy) : Status();
          }) &&
          all;
    all = attempt([&] { return cl.finish(); }) && all;
    all = attempt([&] { return cl.download(std::as_writable_bytes(std::span(got)), y); }) && all;
    all = attempt([&] { return cl.download(std::as_writable_bytes(std::span(swapped)), of_swapped); }) && all;
    cl.kernel_seconds();
    right = all && told == 1;
    for (index i = 0; i < dim; ++i) right = right && got[i] == table[700 * dim + i] && got[dim + i] == 0;
    for (std::size_t i = 0; i < 8; ++i) right = right && swapped[i] == 0 && swapped[8 + i] == pool[i];
  }
};

std::string left_behind() {
  std::string list;
  for (const auto& [object, count] : plan.alive)
    if (count != 0) list += " " + std::to_string(count) + " " + object;
  return list;
}

class ClFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    plan = {};
    const auto cl = Cl::make();
    INLAY_NEEDS(cl.has_value(), "cl", std::string(cl.error().message()));
  }
  void TearDown() override { plan = {}, own_memory = false; }

  // `need_not_be_told`: failures that nothing depends on.
  template <class Live> void every_call_once(Live&& live, const std::vector<std::string>& need_not_be_told) {
    live();  // fills the cache
    plan = {};
    const Life sound = live();
    ASSERT_TRUE(sound.right) << (sound.failed_once.empty() ? "" : sound.failed_once[0]);
    ASSERT_EQ(left_behind(), "");
    ASSERT_GT(sound.calls, 50);
    for (int n = 1; n <= sound.calls; ++n) {
      plan = {.fails_at = n, .error = n % 2 ? CL_OUT_OF_RESOURCES : CL_DEVICE_NOT_AVAILABLE};
      const Life life = live();
      SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(sound.calls) + ", " + plan.failed);
      EXPECT_EQ(left_behind(), "");
      ASSERT_TRUE(life.right) << (life.failed_twice.empty() ? "" : life.failed_twice[0]);
      EXPECT_TRUE(life.failed_twice.empty()) << life.failed_twice[0];
      for (const std::string& said : life.failed_once)
        EXPECT_TRUE(holds(said, n % 2 ? "CL_OUT_OF_RESOURCES" : "CL_DEVICE_NOT_AVAILABLE")) << said;
      bool told = !life.failed_once.empty();
      for (const std::string& call : need_not_be_told) told = told || call == plan.failed;
      EXPECT_TRUE(told) << "nobody was told";
    }
  }
};

TEST_F(ClFailures, every_call_fails_once) {
  every_call_once([] { return Life({}); }, {"clCreateBuffer"});  // without what the pool has unused it is tried again
}

TEST_F(ClFailures, every_call_fails_once_with_a_cache_and_times) {
  const exec::test::TemporaryDirectory folder;
  every_call_once([&] { return Life({.profiling = true, .cache = folder / "programs"}); },
                  {"clCreateBuffer", "clCreateProgramWithBinary", "clBuildProgram", "clGetProgramInfo",
                   "clWaitForEvents", "clGetEventProfilingInfo"});
}

// What is not pinned is copied from ordinary memory.
TEST_F(ClFailures, every_call_fails_once_on_a_device_with_memory_of_its_own) {
  own_memory = true;
  every_call_once([] { return Life({}); }, {"clCreateBuffer", "clEnqueueMapBuffer"});
}

// What is pinned stays where its driver may still read it: the buffer is not given back.
TEST_F(ClFailures, a_device_with_memory_of_its_own_is_lost) {
  own_memory = true;
  const auto live = [] { return Life({}); };
  plan = {};
  const int calls = live().calls;
  bool stays = false;
  for (int n : std::vector(plan.of_queue)) {
    if (n > calls) break;
    plan = {.fails_at = n, .lost = true};
    live();
    SCOPED_TRACE("from call " + std::to_string(n) + " of " + std::to_string(calls) + " on");
    const std::string left = left_behind();
    EXPECT_TRUE(left.empty() || left == " 1 cl_mem") << left;
    stays = stays || !left.empty();
  }
  EXPECT_TRUE(stays);
  plan = {};
  EXPECT_TRUE(live().right) << "the process does not go on";
}

// A device is lost at some moment: from then on the queue refuses everything.
TEST_F(ClFailures, a_device_is_lost) {
  const auto live = [] { return Life({}); };
  plan = {};
  const int calls = live().calls;
  bool named_a_kernel = false;
  for (int n : std::vector(plan.of_queue)) {
    if (n > calls) break;
    plan = {.fails_at = n, .lost = true};
    const Life life = live();
    SCOPED_TRACE("from call " + std::to_string(n) + " of " + std::to_string(calls) + " on");
    EXPECT_FALSE(life.right);
    EXPECT_FALSE(life.failed_twice.empty());
    for (const std::string& said : life.failed_twice) {
      EXPECT_TRUE(holds(said, "CL_OUT_OF_RESOURCES")) << said;
      named_a_kernel = named_a_kernel || holds(said, "OpenCL kernel embedding");
    }
    EXPECT_EQ(left_behind(), "");
  }
  EXPECT_TRUE(named_a_kernel);
  plan = {};
  EXPECT_TRUE(live().right) << "the process does not go on";
}

// An engine's context and queue have as many owners afterwards as before, whatever failed.
TEST_F(ClFailures, an_engine_keeps_what_is_its_own) {
  std::optional<Cl> engine;
  auto made = Cl::make();
  ASSERT_TRUE(made.has_value());
  engine.emplace(std::move(*made));
  const std::string of_engine = left_behind();
  const auto live = [&] { return Life(engine->context(), engine->queue()); };
  plan.calls = 0;
  const int calls = live().calls;
  for (int n = 1; n <= calls; ++n) {
    plan.fails_at = n, plan.calls = 0;
    const Life life = live();
    SCOPED_TRACE("call " + std::to_string(n) + " of " + std::to_string(calls) + ", " + plan.failed);
    EXPECT_TRUE(life.right) << (life.failed_twice.empty() ? "" : life.failed_twice[0]);
    ASSERT_EQ(left_behind(), of_engine);
  }
}

// A call that Inlay makes and that this program does not stand before could not be made to fail.
TEST_F(ClFailures, every_call_passes_here) {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* const symbols = popen(("nm --undefined-only '" + program + "'").c_str(), "r");
  ASSERT_NE(symbols, nullptr);
  char line[1024];
  int lines = 0;
  for (; std::fgets(line, sizeof line, symbols) != nullptr; ++lines) {
    const char* const call = std::strstr(line, " U cl");
    EXPECT_FALSE(call != nullptr && 'A' <= call[5] && call[5] <= 'Z')
        << line << "stands in no list of failing_calls.hpp";
  }
  EXPECT_EQ(pclose(symbols), 0);
  EXPECT_GT(lines, 10);
}

}  // namespace
}  // namespace inlay::test
