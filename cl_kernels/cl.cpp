#include <inlay/cl.hpp>
#include <inlay/cl_errors.hpp>

#include <cstdlib>
#include <utility>

#include "cl_kernels/runtime/device.hpp"
#include "cl_kernels/runtime/runtime.hpp"

namespace inlay {

namespace {

std::string environment(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

ClOptions completed(ClOptions options) {
  if (options.device.empty()) options.device = environment("INLAY_CL_DEVICE");
  if (options.language.empty()) options.language = environment("INLAY_CL_LANGUAGE");
  if (options.cache.empty()) options.cache = environment("INLAY_CL_CACHE");
  if (options.build_options.empty()) options.build_options = environment("INLAY_CL_BUILD_OPTIONS");
  if (options.tuning.empty()) options.tuning = environment("INLAY_CL_TUNING");
  return options;
}

}  // namespace

ClRecording::ClRecording(std::unique_ptr<cl::Recording> recording) : recording_(std::move(recording)) {}
ClRecording::ClRecording(ClRecording&&) noexcept = default;
ClRecording& ClRecording::operator=(ClRecording&&) noexcept = default;
ClRecording::~ClRecording() = default;
std::size_t ClRecording::launches() const { return recording_->launches().size(); }

Cl::Cl(std::unique_ptr<cl::Runtime> runtime) : runtime_(std::move(runtime)) {}
Cl::Cl(Cl&&) noexcept = default;
Cl& Cl::operator=(Cl&&) noexcept = default;
Cl::~Cl() = default;

Expected<Cl> Cl::make(const ClOptions& wanted) {
  ClOptions options = completed(wanted);
  auto found = cl::choose_device(options.device);
  if (!found) return failure(std::move(found.error()));
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(found->platform), 0};
  cl_int error = CL_SUCCESS;
  cl_context context = clCreateContext(properties, 1, &found->id, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return failure(cl::error_status(error, "a context on " + found->record.name));
  // The call of OpenCL 1.2: every device has it.
  cl_command_queue queue =
      clCreateCommandQueue(context, found->id, options.profiling ? CL_QUEUE_PROFILING_ENABLE : 0, &error);
  if (error != CL_SUCCESS) {
    clReleaseContext(context);
    return failure(cl::error_status(error, "a queue on " + found->record.name));
  }
  auto runtime = cl::Runtime::make(context, queue, found->id, std::move(found->record), std::move(options));
  if (!runtime) return failure(std::move(runtime.error()));
  return Cl(std::move(*runtime));
}

Expected<Cl> Cl::make(cl_context context, cl_command_queue queue, const ClOptions& wanted) {
  if (context == nullptr) return failure(invalid("context is null; it must be an OpenCL context"));
  if (queue == nullptr) return failure(invalid("queue is null; it must be a queue of the context"));
  const auto ask = [&](cl_command_queue_info what, auto& value) {
    return clGetCommandQueueInfo(queue, what, sizeof value, &value, nullptr);
  };
  cl_context of_queue = nullptr;
  cl_device_id id = nullptr;
  cl_command_queue_properties properties = 0;
  for (cl_int error : {ask(CL_QUEUE_CONTEXT, of_queue), ask(CL_QUEUE_DEVICE, id), ask(CL_QUEUE_PROPERTIES, properties)})
    if (error != CL_SUCCESS) return failure(cl::error_status(error, "asking the queue for its device"));
  if (of_queue != context)
    return failure(invalid("queue belongs to another context; it must be a queue of the context"));
  if (properties & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)
    return failure(invalid("queue runs out of order; it must run in order"));
  auto record = cl::describe(id);
  if (!record) return failure(std::move(record.error()));
  ClOptions options = completed(wanted);
  options.device = record->name;
  options.profiling = (properties & CL_QUEUE_PROFILING_ENABLE) != 0 && wanted.profiling;
  cl_int error = clRetainContext(context);
  if (error == CL_SUCCESS)
    if (error = clRetainCommandQueue(queue); error != CL_SUCCESS) clReleaseContext(context);
  if (error != CL_SUCCESS) return failure(cl::error_status(error, "keeping the context and the queue"));
  auto runtime = cl::Runtime::make(context, queue, id, std::move(*record), std::move(options));
  if (!runtime) return failure(std::move(runtime.error()));
  return Cl(std::move(*runtime));
}

const ClDevice& Cl::device() const { return runtime_->device(); }
const ClOptions& Cl::options() const { return runtime_->options(); }
cl_context Cl::context() const { return runtime_->context(); }
cl_command_queue Cl::queue() const { return runtime_->queue(); }

Expected<ClAddress> Cl::allocate(std::size_t bytes) {
  auto buffer = runtime_->memory().allocate(bytes);
  if (!buffer) return failure(std::move(buffer.error()));
  return ClAddress{*buffer, 0};
}
Expected<std::optional<ClAddress>> Cl::map(std::span<const std::byte> host) {
  auto buffer = runtime_->memory().map(host);
  if (!buffer) return failure(std::move(buffer.error()));
  if (*buffer == nullptr) return std::optional<ClAddress>();
  return ClAddress{*buffer, 0};
}
void Cl::release(ClAddress buffer) { runtime_->memory().release(buffer.memory); }
std::size_t Cl::allocations() const { return runtime_->memory().allocations(); }

Status Cl::upload(ClAddress to, std::span<const std::byte> from) { return runtime_->upload(to, from); }
Status Cl::download(std::span<std::byte> to, ConstClAddress from) { return runtime_->download(to, from); }

Status Cl::tune(std::string_view op, std::string_view parameter, long value) {
  return runtime_->tuning().set(op, parameter, value);
}
Expected<int> Cl::tuned(std::string_view op, std::string_view parameter) const {
  const auto found = cl::find_parameter(op, parameter);
  if (!found) return failure(found.error().code(), std::string(found.error().message()));
  return runtime_->tuned(**found);
}
const std::string& Cl::tuning() const { return runtime_->tuning().origin(); }

Status Cl::begin_recording() { return runtime_->begin_recording(); }
ClRecording Cl::end_recording() { return ClRecording(runtime_->end_recording()); }
Status Cl::replay(const ClRecording& recording) { return runtime_->replay(*recording.recording_); }

Status Cl::finish() { return runtime_->finish(); }
double Cl::kernel_seconds() { return runtime_->kernel_seconds(); }

}  // namespace inlay
