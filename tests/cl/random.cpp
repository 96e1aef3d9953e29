// Small random structs of every operator on OpenCL, each shape, against the reference; and the program that
// scripts/oclgrind.sh runs, where every access of every work-item is watched.
//
//   INLAY_FUZZ_RUNS       structs of each operator, and more until one of them is right and small enough to run
//   INLAY_FUZZ_SEED       of the first one; struct i has this seed + i
//   INLAY_UNDER_OCLGRIND  buffers hold nothing but what was written, so that what nobody wrote is seen
#include <gtest/gtest.h>

#include <cstdlib>
#include <memory>
#include <vector>

#include "cl_kernels/runtime/runtime.hpp"
#include "measure/cases/compare.hpp"
#include "tests/fuzz/operators/every.hpp"
#include "tests/support/cl_devices.hpp"
#include "tests/support/describe.hpp"

namespace inlay::fuzz {
namespace {

// Each buffer is new and knows no byte that was not written. oclgrind 21.10 takes a write behind the beginning of a
// buffer for one at its beginning: so all writes begin there.
class Unwritten {
 public:
  using Space = Cl;

  explicit Unwritten(Cl& cl) : cl_(cl) {}
  Expected<ClAddress> allocate(std::size_t bytes) {
    return ClAddress{clCreateBuffer(cl_.context(), CL_MEM_READ_WRITE, bytes, nullptr, nullptr), 0};
  }
  void release(ClAddress p) { clReleaseMemObject(p.memory); }
  Status upload(ClAddress to, std::span<const std::byte> from) {
    std::vector<std::byte> whole(static_cast<std::size_t>(to.offset));
    whole.insert(whole.end(), from.begin(), from.end());
    return cl_.upload({to.memory, 0}, whole);
  }
  Status download(std::span<std::byte> to, ConstClAddress from) { return cl_.download(to, from); }
  Status finish() { return cl_.finish(); }
  Cl& cl() { return cl_; }

 private:
  Cl& cl_;
};
template <class Op> Status supports(Unwritten& device, const Op& op) { return inlay::supports(device.cl(), op); }
template <class Op> std::size_t scratch_bytes(Unwritten& device, const Op& op) {
  return inlay::scratch_bytes(device.cl(), op);
}
template <class Op> Status compute(Unwritten& device, const Op& op, const SpaceWorkspace<Cl>& workspace) {
  return inlay::compute(device.cl(), op, workspace);
}

template <class Op> Status run_on(test::WatchedCl& device, const Op& op) {
  if (std::getenv("INLAY_UNDER_OCLGRIND") == nullptr) return run_from_host(device, op);
  Unwritten unwritten(device.cl());
  return run_from_host(unwritten, op);
}

template <class Op> class ClRandom : public ::testing::Test {
 protected:
  void SetUp() override { INLAY_NEEDS(!test::cl_devices_to_test().empty(), "cl", std::string("no OpenCL device")); }
};
TYPED_TEST_SUITE(ClRandom, EveryOperator, OperatorNames);

TYPED_TEST(ClRandom, is_the_reference) {
  using Op = TypeParam;
  constexpr std::uint64_t few = 4;
  constexpr index small = index{1} << 14;
  const std::uint64_t first = number("INLAY_FUZZ_SEED", 1), runs = number("INLAY_FUZZ_RUNS", few);
  Rooms rooms(96, std::size_t{1} << 20);
  std::uint64_t ran = 0;
  for (std::uint64_t i = 0; i < runs || (ran == 0 && i < runs + 64); ++i) {
    Draw d(rooms, first + i);
    Op op{};
    draw(d, op);
    bool runs_here = check(op).ok() && !writes_nothing(op);
    for_each_view(op, [&](const auto&, const auto& view) {
      runs_here = runs_here && (view.empty() || (view.size() <= small && d.owns(view)));
    });
    if (!runs_here) continue;
    ++ran;
    SCOPED_TRACE("INLAY_FUZZ_SEED=" + std::to_string(first + i) + " INLAY_FUZZ_RUNS=1: " + test::describe(op));
    d.remember();
    Reference reference;
    const Status expected = inlay::run(reference, op);
    const std::vector<Written> values = written(op);
    for (test::WatchedCl& device : test::cl_devices_to_test()) {
      SCOPED_TRACE(device.label());
      d.restore();
      const Status status = run_on(device, op);
      ASSERT_EQ(status.code(), expected.code()) << status.message() << " / " << expected.message();
      ASSERT_EQ(distance(values, written(op), nearness(op)).words, "");
    }
  }
  EXPECT_GT(ran, 0u) << "no struct ran";
}

// Kernels with one bug each, that scripts/oclgrind.sh must be told of, and one without that it once was. Without it
// they would do harm.
class ClPlanted : public ::testing::Test {
 protected:
  // `text` defines broken(y); where it defines before(y), that runs first.
  void run(const std::string& text) {
    if (std::getenv("INLAY_UNDER_OCLGRIND") == nullptr)
      GTEST_SKIP() << "not tested: ClPlanted (oclgrind): scripts/oclgrind.sh runs it";
    Cl& cl = test::cl_devices_to_test().at(0).cl();
    auto program = cl.runtime().programs().build(text, "-cl-std=CL1.2", "broken");
    ASSERT_TRUE(program.has_value()) << program.error().message();
    cl_mem y = clCreateBuffer(cl.context(), CL_MEM_READ_WRITE, 64, nullptr, nullptr);
    for (const char* name : {"before", "broken"}) {
      if (text.find(name) == std::string::npos) continue;
      cl_kernel kernel = clCreateKernel(*program, name, nullptr);
      ASSERT_NE(kernel, nullptr) << name;
      clSetKernelArg(kernel, 0, sizeof y, &y);
      ASSERT_TRUE(cl.runtime().enqueue(kernel, name, {.groups = {2}, .lanes = {8}}).ok());
      ASSERT_TRUE(cl.finish().ok());
      clReleaseKernel(kernel);
    }
    clReleaseMemObject(y);
    clReleaseProgram(*program);
  }
};

TEST_F(ClPlanted, race) {
  run("kernel void broken(global int* y) { local int x[8]; int i = get_local_id(0); x[i] = i; y[get_global_id(0)] = "
      "x[i ^ 1]; }");
}
TEST_F(ClPlanted, outside) { run("kernel void broken(global int* y) { y[get_global_id(0) + 1] = 1; }"); }
TEST_F(ClPlanted, unwritten) {
  run("kernel void broken(global int* y) { y[0] = y[get_global_id(0)] + 1 > 3 ? 1 : 2; }");
}
TEST_F(ClPlanted, unwritten_scratch) {  // but for its first half, by another kernel
  run("kernel void before(global int* y) { y[get_global_id(0) / 2] = 1; }"
      "kernel void broken(global int* y) { if (y[get_global_id(0)] > 0) y[15] = 1; }");
}
TEST_F(ClPlanted, unwritten_private) {
  run("kernel void broken(global int* y) { int x[3]; x[0] = x[2] = 1; y[get_global_id(0)] = x[y == 0 ? 0 : 1]; }");
}
TEST_F(ClPlanted, unwritten_local) {
  run("kernel void broken(global int* y) { local int x[9]; int i = get_local_id(0); x[i] = i; "
      "barrier(CLK_LOCAL_MEM_FENCE); y[get_global_id(0)] = x[i + 1]; }");
}
TEST_F(ClPlanted, unwritten_lane) {  // by way of a function of OpenCL C
  run("kernel void broken(global int* y) { float8 x; x.s0123 = 1; float8 z = fma(x, x, x); "
      "y[get_global_id(0)] = (int)z.s4; }");
}
// What the pass of unwritten values once took for a bug (scripts/oclgrind.sh): what another kernel wrote, lane 11,
// lanes that may hold anything, and one that is computed and not used.
TEST_F(ClPlanted, sound) {
  run("kernel void before(global int* y) { y[get_global_id(0)] = 1; }"
      "kernel void broken(global int* y) { float8 y8 = (float8)(y[get_global_id(0)]); float16 x = (float16)(y8, y8);"
      "float8 z; z.s0123 = x.hi.s0123; z = fma(z, z, z); y[get_global_id(0)] = (int)(z.s3 + x.hi.s3); }");
}

}  // namespace
}  // namespace inlay::fuzz
