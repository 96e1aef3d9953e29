// An engine with an OpenCL context, a queue and buffers of its own. The operator reads and writes parts of them.
#include <cmath>
#include <cstdio>
#include <vector>

#include <inlay/cl.hpp>
#include <inlay/ops/rms_norm.hpp>

int main() {
  // A machine without a device has nothing to show, and says so.
  auto probe = inlay::Cl::make();
  if (!probe) return std::printf("%s\n", probe.error().message().data()), 0;

  cl_device_id device = nullptr;
  clGetCommandQueueInfo(probe->queue(), CL_QUEUE_DEVICE, sizeof device, &device, nullptr);
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  cl_command_queue queue = clCreateCommandQueueWithProperties(context, device, nullptr, nullptr);

  // One buffer: 3 rows of x, the weight, 3 rows of y.
  constexpr long rows = 3, dim = 100;
  std::vector<float> host(2 * rows * dim + dim, 1.0f);
  for (long i = 0; i < rows * dim; ++i) host[i] = std::sin(static_cast<float>(i));
  cl_mem buffer = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, host.size() * sizeof(float),
                                 host.data(), nullptr);
  {
    auto cl = inlay::Cl::make(context, queue);
    if (!cl) return std::printf("%s\n", cl.error().message().data()), 1;
    inlay::RmsNorm<inlay::Cl> op{.x = {{buffer, 0}, inlay::DType::f32, {rows, dim}},
                                 .weight = {{buffer, rows * dim * 4}, inlay::DType::f32, {dim}},
                                 .y = {{buffer, (rows + 1) * dim * 4}, inlay::DType::f32, {rows, dim}}};
    if (auto status = inlay::run(*cl, op); !status.ok()) return std::printf("%s\n", status.message().data()), 1;
    if (auto status = inlay::finish(*cl); !status.ok()) return std::printf("%s\n", status.message().data()), 1;
    op.y.data.offset = 4;  // over x
    if (inlay::run(*cl, op).ok()) return std::printf("an overlap passed\n"), 1;
  }
  clEnqueueReadBuffer(queue, buffer, CL_TRUE, 0, host.size() * sizeof(float), host.data(), 0, nullptr, nullptr);
  for (long row = 0; row < rows; ++row) {
    double squares = 0;
    for (long i = 0; i < dim; ++i) squares += static_cast<double>(host[row * dim + i]) * host[row * dim + i];
    const double scale = 1 / std::sqrt(squares / dim + 1e-5);
    for (long i = 0; i < dim; ++i)
      if (std::abs(host[(rows + 1 + row) * dim + i] - host[row * dim + i] * scale) > 1e-5)
        return std::printf("row %ld, element %ld differs\n", row, i), 1;
  }
  clReleaseMemObject(buffer);
  clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return 0;
}
