// An engine that has a context, a queue and buffers of its own: operators work on parts of its buffers, and nothing is
// created behind its back.
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/add.hpp>

#include "tests/support/cl_devices.hpp"

namespace inlay::test {
namespace {

class ClEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    auto probe = Cl::make();
    INLAY_NEEDS(probe.has_value(), "cl", std::string(probe.error().message()));
    clGetCommandQueueInfo(probe->queue(), CL_QUEUE_DEVICE, sizeof device_, &device_, nullptr);
    context_ = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
    queue_ = clCreateCommandQueueWithProperties(context_, device_, nullptr, nullptr);
    ASSERT_NE(queue_, nullptr);
  }
  void TearDown() override {
    if (queue_ != nullptr) clReleaseCommandQueue(queue_);
    if (context_ != nullptr) clReleaseContext(context_);
  }
  cl_uint context_references() const {
    cl_uint count = 0;
    clGetContextInfo(context_, CL_CONTEXT_REFERENCE_COUNT, sizeof count, &count, nullptr);
    return count;
  }

  cl_device_id device_ = nullptr;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
};

TEST_F(ClEngine, parts_of_a_buffer_are_views) {
  std::vector<float> host(96);
  for (int i = 0; i < 96; ++i) host[i] = static_cast<float>(i);
  cl_mem buffer = clCreateBuffer(context_, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, host.size() * sizeof(float),
                                 host.data(), nullptr);
  const cl_uint before = context_references();
  {
    auto cl = Cl::make(context_, queue_);
    ASSERT_TRUE(cl.has_value()) << cl.error().message();
    EXPECT_EQ(cl->context(), context_);
    EXPECT_EQ(cl->queue(), queue_);
    // Three parts of one buffer: rows of 8 with 16 between them.
    const auto part = [&](std::ptrdiff_t first) {
      return View<2, Cl>({buffer, first * 4}, DType::f32, {6, 5}, {16, 1});
    };
    const Status status = run(*cl, Add<Cl>{.a = part(0), .b = part(5), .y = part(10)});
    ASSERT_TRUE(status.ok()) << status.message();
    ASSERT_TRUE(finish(*cl).ok());
    std::vector<float> got(host.size());
    clEnqueueReadBuffer(queue_, buffer, CL_TRUE, 0, got.size() * sizeof(float), got.data(), 0, nullptr, nullptr);
    for (int row = 0; row < 6; ++row)
      for (int i = 0; i < 5; ++i) host[row * 16 + 10 + i] = host[row * 16 + i] + host[row * 16 + 5 + i];
    EXPECT_EQ(got, host);
    EXPECT_EQ(cl->allocations(), 0u);
  }
  EXPECT_EQ(context_references(), before) << "something of the context is still held";
  clReleaseMemObject(buffer);
}

TEST_F(ClEngine, what_is_no_queue_of_the_context_is_refused) {
  const auto refused = [](cl_context context, cl_command_queue queue, std::string_view word) {
    const auto made = Cl::make(context, queue);
    EXPECT_FALSE(made.has_value());
    if (made) return;
    EXPECT_NE(made.error().message().find(word), std::string_view::npos) << made.error().message();
  };
  refused(nullptr, queue_, "context is null");
  refused(context_, nullptr, "queue is null");
  cl_context other = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
  const cl_uint before = context_references();
  refused(other, queue_, "another context");
  EXPECT_EQ(context_references(), before);
  clReleaseContext(other);
  const cl_queue_properties properties[] = {CL_QUEUE_PROPERTIES, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, 0};
  if (cl_command_queue loose = clCreateCommandQueueWithProperties(context_, device_, properties, nullptr)) {
    refused(context_, loose, "out of order");
    clReleaseCommandQueue(loose);
  }
}

}  // namespace
}  // namespace inlay::test
