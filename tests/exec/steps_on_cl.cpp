// What a step of a model asks of OpenCL: this program stands between Inlay and the loader, and counts. Once two tokens
// are written, a step makes nothing, sets what changed alone and reads its token; weights lie where the host has them.
#include <gtest/gtest.h>

#include <map>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/add.hpp>

#include "measure/behind.hpp"
#include "tests/exec/support/on_cl.hpp"
#include "tests/exec/support/random_session.hpp"

namespace {

struct Calls {
  int programs = 0, kernels = 0, buffers = 0, launches = 0, waits = 0;
  int arguments = 0, unchanged = 0;                           // set, and of these to what they were
  std::size_t read = 0, written = 0, copied = 0, mapped = 0;  // bytes; the last two as buffers are made
} calls;

std::map<std::pair<cl_kernel, cl_uint>, std::vector<unsigned char>> arguments;

}  // namespace

extern "C" cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id* devices, const char* options,
                                 void(CL_CALLBACK* done)(cl_program, void*), void* data) {
  BEHIND(clBuildProgram);
  ++calls.programs;
  return behind(program, n, devices, options, done, data);
}
extern "C" cl_kernel clCreateKernel(cl_program program, const char* name, cl_int* error) {
  BEHIND(clCreateKernel);
  ++calls.kernels;
  cl_kernel const made = behind(program, name, error);
  // The handle of one that is gone.
  arguments.erase(arguments.lower_bound({made, 0}), arguments.upper_bound({made, ~0u}));
  return made;
}
extern "C" cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t bytes, void* host, cl_int* error) {
  BEHIND(clCreateBuffer);
  ++calls.buffers;
  if ((flags & CL_MEM_COPY_HOST_PTR) != 0) calls.copied += bytes;
  if ((flags & CL_MEM_USE_HOST_PTR) != 0) calls.mapped += bytes;
  return behind(context, flags, bytes, host, error);
}
extern "C" cl_int clSetKernelArg(cl_kernel kernel, cl_uint argument, size_t bytes, const void* value) {
  BEHIND(clSetKernelArg);
  ++calls.arguments;
  const auto* const begin = static_cast<const unsigned char*>(value);
  std::vector<unsigned char> now(begin, begin + bytes);
  std::vector<unsigned char>& before = arguments[{kernel, argument}];
  calls.unchanged += now == before;
  before = std::move(now);
  return behind(kernel, argument, bytes, value);
}
extern "C" cl_int clFinish(cl_command_queue queue) {
  BEHIND(clFinish);
  ++calls.waits;
  return behind(queue);
}
extern "C" cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem buffer, cl_bool waits, size_t at, size_t bytes,
                                      void* to, cl_uint events, const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueReadBuffer);
  calls.read += bytes;
  return behind(queue, buffer, waits, at, bytes, to, events, list, event);
}
extern "C" cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer, cl_bool waits, size_t at, size_t bytes,
                                       const void* from, cl_uint events, const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueWriteBuffer);
  calls.written += bytes;
  return behind(queue, buffer, waits, at, bytes, from, events, list, event);
}
extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint n, const size_t* first,
                                         const size_t* global, const size_t* local, cl_uint events,
                                         const cl_event* list, cl_event* event) {
  BEHIND(clEnqueueNDRangeKernel);
  ++calls.launches;
  return behind(queue, kernel, n, first, global, local, events, list, event);
}

namespace inlay::exec::test {
namespace {

using StepsOnCl = OnCl;

TEST_F(StepsOnCl, a_step_sets_what_changed) {
  constexpr index block = 16, prompt = 8;
  ModelConfig config = tiny();
  config.layers = 4;
  on_each_shape([&](Cl& cl) {
    for (const auto& [type, plans] :
         {std::pair<std::string, Plans>("bf16", Plans::off), {"w4a16", Plans::off}, {"w4a16", Plans::decode}}) {
      const bool replays = plans == Plans::decode;
      SCOPED_TRACE(type + (replays ? ", replayed" : ""));
      Session made = session(config, type, Chain(std::ref(cl)), {.chunk = prompt, .block_size = block, .plans = plans});
      int launches = 0;
      ASSERT_TRUE(made.append(tokens(prompt, config.vocab)).ok());
      for (index step = 0; step < 2 * block; ++step) {
        calls = {};
        const auto token = made.sample({.logits = {}, .tokens = {}, .temperature = 0});
        ASSERT_TRUE(token.has_value()) << token.error().message();
        ASSERT_TRUE(made.decode(*token).ok());
        SCOPED_TRACE("step " + std::to_string(step) + ": " + std::to_string(calls.arguments) + " arguments of " +
                     std::to_string(calls.launches) + " launches");
        EXPECT_GT(calls.launches, 12 * config.layers);
        if (step < 2) continue;
        if (launches == 0) launches = calls.launches;
        EXPECT_EQ(calls.launches, launches);  // a capture computes nothing
        // A block more makes the table wider, which both kernels of a layer's attention are told, and perhaps longer. A
        // plan has kernels of its own, of which an argument is set once.
        const bool wider = (made.length() - 1) % block == 0, captures = wider && replays;
        constexpr std::size_t record = 24;         // what kernels met: asked for at each wait
        EXPECT_LE(calls.waits, captures ? 3 : 2);  // for the token, that the step is done, and before it is captured
        EXPECT_LE(calls.read, sizeof *token + static_cast<std::size_t>(calls.waits) * record);
        EXPECT_EQ(calls.unchanged, 0);
        EXPECT_EQ(calls.programs, 0);
        EXPECT_LE(calls.buffers, wider ? 1 : 0);
        EXPECT_LE(calls.kernels, captures ? launches : 0);
        EXPECT_LE(calls.arguments, captures ? 30 * launches : wider ? 6 * config.layers : 0);
      }
    }
  });
}

TEST_F(StepsOnCl, weights_lie_where_the_host_has_them) {
  ModelConfig config = tiny();
  config.vocab = 1024;
  on_each_shape([&](Cl& cl) {
    if (!cl.device().is_cpu) GTEST_SKIP() << "not tested: StepsOnCl.weights_lie (cl): memory that is not the host's";
    for (const std::string type : {"f16", "int8", "w4a16"}) {
      SCOPED_TRACE(type);
      calls = {};
      const Session made = session(config, type, Chain(std::ref(cl)), {.chunk = 8});
      const auto bytes = static_cast<std::size_t>(made.linear_bytes());
      EXPECT_EQ(calls.written, 0u);
      EXPECT_EQ(calls.copied, 0u);
      EXPECT_GE(calls.mapped, bytes);
    }
  });
}

// Another buffer may get the handle of one that is gone: what the kernels were told of it counts no more.
TEST_F(StepsOnCl, a_buffer_that_is_gone_is_forgotten) {
  Cl& cl = inlay::test::cl_devices_to_test().front().cl();
  std::vector<float> rows(64);
  const auto y = cl.allocate(sizeof(float) * rows.size());
  ASSERT_TRUE(y.has_value());
  const auto add = [&](ClAddress x) {
    const ConstView<2, Cl> a(x, DType::f32, {1, 64}, {64, 1});
    const Status status = run(cl, Add<Cl>{.a = a, .b = a, .y = View<2, Cl>(*y, DType::f32, {1, 64}, {64, 1})});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(cl.download(std::as_writable_bytes(std::span(rows)), *y).ok());
  };
  std::vector<float> ones(64, 1), twos(64, 2);
  const auto mapped = cl.map(std::as_bytes(std::span(ones)));
  ASSERT_TRUE(mapped.has_value());
  if (!*mapped) GTEST_SKIP() << "not tested: StepsOnCl.a_buffer_that_is_gone (cl): no memory of the host's";
  add(**mapped);
  EXPECT_EQ(rows[63], 2);
  calls = {};
  add(**mapped);
  EXPECT_EQ(calls.arguments, 0);
  cl.release(**mapped);
  const auto other = cl.map(std::as_bytes(std::span(twos)));
  ASSERT_TRUE(other.has_value() && *other);
  calls = {};
  add(**other);
  EXPECT_EQ(rows[63], 4);
  EXPECT_EQ(calls.arguments, 3);  // y's too: any handle may be another's now
  cl.release(**other);
  // An engine's buffer comes and goes as the engine likes.
  cl_mem of_engine = clCreateBuffer(cl.context(), CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, 256, ones.data(), nullptr);
  for (int i = 0; i < 2; ++i) {
    calls = {};
    add({of_engine, 0});
    EXPECT_EQ(rows[63], 2);
    EXPECT_GE(calls.arguments, 2);
  }
  clReleaseMemObject(of_engine);
  cl.release(*y);
}

// Launches without an end of a step between them find their objects again.
TEST_F(StepsOnCl, many_launches_take_no_more_objects_than_there_is_room_for) {
  Cl& cl = inlay::test::cl_devices_to_test().front().cl();
  const auto x = cl.allocate(256), y = cl.allocate(256);
  ASSERT_TRUE(x && y);
  const View<2, Cl> row(*x, DType::f32, {1, 64}, {64, 1}), to(*y, DType::f32, {1, 64}, {64, 1});
  calls = {};
  for (int i = 0; i < 3000; ++i) ASSERT_TRUE(run(cl, Add<Cl>{.a = row, .b = row, .y = to}).ok());
  EXPECT_LE(calls.kernels, 1024);
  ASSERT_TRUE(cl.finish().ok());
  calls = {};
  for (int i = 0; i < 1000; ++i) ASSERT_TRUE(run(cl, Add<Cl>{.a = row, .b = row, .y = to}).ok());
  EXPECT_EQ(calls.kernels, 0);
  EXPECT_EQ(calls.arguments, 0);
  ASSERT_TRUE(cl.finish().ok());
  cl.release(*x), cl.release(*y);
}

}  // namespace
}  // namespace inlay::exec::test
