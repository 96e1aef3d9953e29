// Backends: options of every size, whose threads compute, many threads at once.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstring>
#include <string>
#include <thread>

#include "tests/bindings/tensor.hpp"

namespace inlay::test {
namespace {

inlay_backend_options options(const char* name = nullptr) {
  inlay_backend_options made{};
  made.size = sizeof made;
  made.name = name;
  return made;
}

struct Backend {
  inlay_backend* backend = nullptr;
  inlay_code code;
  explicit Backend(const inlay_backend_options* given) : code(inlay_backend_open(given, &backend)) {}
  ~Backend() { inlay_backend_close(backend); }
};

void expect_refused(const inlay_backend_options& given, const char* words, inlay_code code = INLAY_INVALID_ARGUMENT) {
  inlay_backend* backend = reinterpret_cast<inlay_backend*>(8);
  EXPECT_EQ(inlay_backend_open(&given, &backend), code) << words;
  EXPECT_EQ(backend, nullptr);
  EXPECT_NE(std::string(inlay_message()).find(words), std::string::npos) << words << " in: " << inlay_message();
}

void no_threads(void*, size_t, void (*)(void*, size_t), void*) {}

TEST(backends, are_opened_by_name) {
  EXPECT_EQ(Backend(nullptr).code, INLAY_OK);
  for (const char* name : {"cpu", "reference"}) {
    const auto given = options(name);
    EXPECT_EQ(Backend(&given).code, INLAY_OK) << inlay_message();
  }
  expect_refused(options("gpu"), "name is 'gpu'; it must be 'cpu' or 'reference'");
  expect_refused(options("cl"), "name is 'cl', which computes in a device's memory", INLAY_UNSUPPORTED);
  expect_refused(options("npu"), "name is 'npu', which computes in a device's memory", INLAY_UNSUPPORTED);
}

TEST(backends, have_options_that_make_sense) {
  auto given = options();
  given.isa = "scalar";
  EXPECT_EQ(Backend(&given).code, INLAY_OK) << inlay_message();
  given.isa = "sse9";
  expect_refused(given, "isa: sse9 is no instruction set of this machine");
  given = options();
  given.threads = -1;
  expect_refused(given, "threads is -1; it must be in 0..1024");
  given.threads = 1025;
  expect_refused(given, "threads is 1025; it must be in 0..1024");
  given = options();
  given.width = 3;
  expect_refused(given, "width is given without run");
  given.width = 0, given.context = &given;
  expect_refused(given, "context is given without run");
  given.run = no_threads;
  expect_refused(given, "width is 0; it must be in 1..1024");
  given.width = 2, given.threads = 2;
  expect_refused(given, "threads is 2, and run brings others; it must be 0");
  given = options("reference");
  given.threads = 2;
  expect_refused(given, "reference has no threads");
  given.threads = 0, given.isa = "avx2";
  expect_refused(given, "reference has no isa");
}

TEST(backends, take_options_of_older_and_newer_headers) {
  // Older: what lies behind its end has its default, whatever stands there.
  auto given = options("cpu");
  given.threads = 77777;
  given.size = offsetof(inlay_backend_options, threads);
  EXPECT_EQ(Backend(&given).code, INLAY_OK) << inlay_message();
  given.size = sizeof(size_t);
  EXPECT_EQ(Backend(&given).code, INLAY_OK) << inlay_message();
  given.size = 0;
  expect_refused(given, "inlay_backend_options.size is 0; it must be sizeof(inlay_backend_options)");
  given.size = offsetof(inlay_backend_options, isa) + 3;
  expect_refused(given, "it must not end within isa");
  given.size = SIZE_MAX;
  expect_refused(given, "inlay_backend_options.size is");
  // Newer: what this library does not know must be zero.
  struct Newer {
    inlay_backend_options known;
    int64_t priority, more;
  } newer{options("reference"), 0, 0};
  newer.known.size = sizeof newer;
  EXPECT_EQ(Backend(&newer.known).code, INLAY_OK) << inlay_message();
  newer.more = 1;
  expect_refused(newer.known, "what it does not know must be zero", INLAY_UNSUPPORTED);
  expect_refused(newer.known, ("byte " + std::to_string(offsetof(Newer, more))).c_str(), INLAY_UNSUPPORTED);
}

// Work that is worth handing out.
struct Work {
  CTensor<float> x{{256, 2048}, std::vector<float>(256 * 2048)}, y{{256, 2048}, std::vector<float>(256 * 2048)},
      weight{{2048}, std::vector<float>(2048, 1)};
  inlay_argument arguments[3] = {inlay_give_tensor("x", &x.dl), inlay_give_tensor("weight", &weight.dl),
                                 inlay_give_tensor("y", &y.dl)};
  explicit Work(int seed = 0) {
    for (std::size_t i = 0; i < x.values.size(); ++i)
      x.values[i] = std::sin(static_cast<float>(i % 9973) + static_cast<float>(seed));
  }
  inlay_code run(const inlay_backend* backend) { return inlay_run(backend, "rms_norm", arguments, 3, nullptr, 0); }
};

struct Pool {
  std::atomic<int> calls{0}, tasks{0};
  static void run(void* context, size_t count, void (*task)(void*, size_t), void* data) {
    Pool& pool = *static_cast<Pool*>(context);
    ++pool.calls;
    std::atomic<size_t> next{0};
    const auto work = [&] {
      for (size_t i; (i = next++) < count; ++pool.tasks) task(data, i);
    };
    std::thread other(work);
    work();
    other.join();
  }
  // Leaves one out, as a pool with a bug would.
  static void run_but_one(void*, size_t count, void (*task)(void*, size_t), void* data) {
    for (size_t i = 1; i < count; ++i) task(data, i);
  }
  static void run_twice(void*, size_t count, void (*task)(void*, size_t), void* data) {
    for (size_t i = 0; i < count; ++i) task(data, i), task(data, i);
  }
};

TEST(backends, run_on_the_threads_of_the_caller) {
  Work own, theirs;
  auto given = options();
  given.threads = 1;
  Backend one(&given);
  ASSERT_EQ(own.run(one.backend), INLAY_OK) << inlay_message();
  Pool pool;
  given.threads = 0, given.run = Pool::run, given.context = &pool, given.width = 2;
  Backend several(&given);
  ASSERT_EQ(theirs.run(several.backend), INLAY_OK) << inlay_message();
  EXPECT_GT(pool.calls.load(), 0);
  EXPECT_GT(pool.tasks.load(), 1);
  EXPECT_EQ(own.y.values, theirs.y.values);
}

TEST(backends, say_so_where_the_callers_threads_left_a_task_out) {
  for (const inlay_run_tasks run : {Pool::run_but_one, Pool::run_twice}) {
    Work work;
    auto given = options();
    given.run = run, given.width = 2;
    Backend backend(&given);
    EXPECT_EQ(work.run(backend.backend), INLAY_INTERNAL);
    EXPECT_NE(std::string(inlay_message()).find("rms_norm: the backend's run left out "), std::string::npos)
        << inlay_message();
  }
}

TEST(backends, leave_each_thread_its_message) {
  EXPECT_EQ(inlay_run(nullptr, "add", nullptr, 0, nullptr, 0), INLAY_INVALID_ARGUMENT);
  std::string first = inlay_message(), other = "none";
  std::thread([&] {
    other = inlay_message();  // no call of this thread has failed
    inlay_field_count("nothing", nullptr);
  }).join();
  EXPECT_EQ(other, "");
  EXPECT_EQ(first, inlay_message());
}

TEST(backends, are_called_from_32_threads_at_once) {
  auto given = options();
  given.threads = 3;
  Backend shared(&given);
  const auto reference_options = options("reference");
  Backend reference(&reference_options);
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int t = 0; t < 32; ++t)
    threads.emplace_back([&, t] {
      // Every thread has words of its own.
      const std::string name = "none" + std::to_string(t);
      for (int i = 0; i < 20; ++i) {
        CTensor<float> a({3, 5}, std::vector<float>(15, static_cast<float>(t))), b({3, 5}, std::vector<float>(15, 1)),
            y({3, 5}, std::vector<float>(15, 0));
        const inlay_argument arguments[] = {inlay_give_tensor("a", &a.dl), inlay_give_tensor("b", &b.dl),
                                            inlay_give_tensor("y", &y.dl)};
        const inlay_backend* backend = i % 4 == 0 ? reference.backend : shared.backend;
        if (inlay_run(backend, "add", arguments, 3, nullptr, 0) != INLAY_OK) ++wrong;
        if (y.values != std::vector<float>(15, static_cast<float>(t) + 1)) ++wrong;
        if (inlay_run(backend, name.c_str(), arguments, 3, nullptr, 0) != INLAY_INVALID_ARGUMENT) ++wrong;
        if (std::string(inlay_message()).find("'" + name + "'") == std::string::npos) ++wrong;
      }
      Work work(t), alone(t);
      if (work.run(shared.backend) != INLAY_OK || alone.run(shared.backend) != INLAY_OK) ++wrong;
      if (work.y.values != alone.y.values) ++wrong;
    });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong.load(), 0);
}

}  // namespace
}  // namespace inlay::test
