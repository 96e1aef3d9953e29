#include "cl_kernels/runtime/runtime.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include <inlay/cl_errors.hpp>

#include "cl_kernels/runtime/subnormals.hpp"

namespace inlay::cl {

namespace {

constexpr const char* languages[] = {"CL3.0", "CL2.0", "CL1.2"};  // from the newest on

// What was wanted, or the newest that compiles: drivers name versions that their compilers refuse (oclgrind's CL3.0).
Expected<std::string> choose_language(cl_context context, cl_device_id id, const ClDevice& record,
                                      const std::string& wanted) {
  if (!wanted.empty()) {
    for (const char* known : languages)
      if (wanted == known) {
        if (wanted <= record.language) return wanted;
        return failure(StatusCode::unsupported, record.name + " compiles up to " + record.language + ", not " + wanted);
      }
    return failure(invalid("language is '" + wanted + "'; it must be CL1.2, CL2.0 or CL3.0"));
  }
  Status last;
  for (const char* known : languages) {
    if (known > record.language) continue;
    Programs probes(context, id, record, {}, {});
    bool refused = false;
    auto probe = probes.build("kernel void probe() {}", std::string("-cl-std=") + known, "probe", &refused);
    if (probe) {
      clReleaseProgram(*probe);
      return known;
    }
    last = std::move(probe.error());
    if (!refused) break;
  }
  return failure(std::move(last));
}

// Built with `options`, do butterflies give every lane the right result?
bool lanes_meet(cl_context context, cl_command_queue queue, cl_device_id id, const ClDevice& record,
                const std::string& options) {
  constexpr std::size_t lanes = 64;
  Programs probes(context, id, record, options, {});
  const auto kernel = probes.kernel(ProgramKey("runtime/probe").number("LANES", lanes), "probe");
  if (!kernel) return false;
  float y[lanes] = {};
  return run_probe(context, queue, **kernel, lanes, y, sizeof y) &&
         std::all_of(std::begin(y), std::end(y),
                     [](float v) { return v == 1000 * lanes * (lanes - 1) / 2 + lanes - 1; });
}

}  // namespace

Expected<std::unique_ptr<Runtime>> Runtime::make(cl_context context, cl_command_queue queue, cl_device_id id,
                                                 ClDevice record, ClOptions options) {
  // From here on the Runtime gives them back, whatever fails.
  std::unique_ptr<Runtime> made(new Runtime);
  made->context_ = context;
  made->queue_ = queue;
  const bool holds_groups = record.max_work_group >= max_lanes;
  if (options.shape == ClShape::by_device)
    options.shape = record.is_cpu || !holds_groups ? ClShape::per_item : ClShape::per_group;
  if (options.shape == ClShape::per_group && !holds_groups)
    return failure(StatusCode::unsupported, "shape is per_group, with groups of " + std::to_string(max_lanes) +
                                                " work-items; those of " + record.name + " have at most " +
                                                std::to_string(record.max_work_group) + ": it must be per_item");
  made->record_ = std::move(record);
  auto chosen = choose_language(context, id, made->record_, options.language);
  if (!chosen) return failure(std::move(chosen.error()));
  options.language = *chosen;
  made->tuning_ = Tuning(options.shape);
  if (!options.tuning.empty() && options.tuning != "none")
    if (Status status = made->tuning_.read(options.tuning, made->record_); !status.ok())
      return failure(std::move(status));
  made->memory_ = std::make_unique<Memory>(context, made->record_);
  made->staging_ = std::make_unique<Staging>(context, queue, !made->record_.shares_memory);
  // Warnings are for whoever writes a kernel (tests/cl/syntax.cmake has them all). PoCL writes how many there were to
  // the stderr of whoever runs it: 110 for an attention whose vectors are wider than the machine's.
  std::string build = "-w -cl-std=" + options.language;
  build += options.shape == ClShape::per_item ? " -D PER_ITEM=1" : " -D PER_GROUP=1";
  if (!options.build_options.empty()) build += ' ' + options.build_options;
  if (options.only_fallbacks) {
    build += " -D FALLBACKS=1";
  } else {
    // By what the device says it might; that it does is seen.
    const bool names_subgroups = options.language == "CL3.0" && made->record_.has("cl_khr_subgroup_shuffle");
    const bool is_nvidia = made->record_.vendor.find("NVIDIA") != std::string::npos;
    for (const char* way : {names_subgroups ? " -D SUBGROUPS=1" : "", is_nvidia ? " -D SHFL=1" : ""})
      if (*way != '\0' && lanes_meet(context, queue, id, made->record_, build + way)) {
        build += way;
        break;
      }
  }
  // support/quotient.clh mends quotients where the device does not round them.
  cl_device_fp_config arithmetic = 0;
  if (cl_int refused = clGetDeviceInfo(id, CL_DEVICE_SINGLE_FP_CONFIG, sizeof arithmetic, &arithmetic, nullptr);
      refused != CL_SUCCESS)
    return failure(error_status(refused, "asking how " + made->record_.name + " divides"));
  if ((arithmetic & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT) != 0 && !options.only_fallbacks)
    build += " -cl-fp32-correctly-rounded-divide-sqrt -D ROUNDS_QUOTIENTS=1";
  made->programs_ = std::make_unique<Programs>(context, id, made->record_, std::move(build), options.cache);
  made->options_ = std::move(options);

  cl_int error = CL_SUCCESS;
  DeviceFaults::Record none;
  cl_mem record_memory = clCreateBuffer(context, CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR, sizeof none, &none, &error);
  if (error != CL_SUCCESS) return failure(error_status(error, "a record of faults on " + made->record_.name));
  made->faults_ = std::make_unique<DeviceFaults>(record_memory);
  return made;
}

Runtime::~Runtime() {
  if (queue_ != nullptr && clFinish(queue_) != CL_SUCCESS) {
    // A lost device's driver may still read and write what it was given: it stays.
    if (faults_) faults_->leave();
    if (staging_) staging_->leave();
  }
  for (cl_event event : events_) clReleaseEvent(event);
  staging_.reset();
  faults_.reset();
  programs_.reset();
  memory_.reset();
  if (queue_ != nullptr) clReleaseCommandQueue(queue_);
  if (context_ != nullptr) clReleaseContext(context_);
}

const Dot& Runtime::dot() {
  if (!dot_) dot_ = best_dot(*this);
  return *dot_;
}

bool Runtime::subnormal_codes() {
  if (!subnormal_codes_) subnormal_codes_ = has_fast_subnormals(*this);
  return *subnormal_codes_;
}

index Runtime::busy_groups() const {
  // A GPU hides latency with several groups a unit; a CPU wants a few tasks a thread, so that none waits for the last.
  return static_cast<index>(record_.compute_units) * (per_item() ? 2 : 8);
}

Status Runtime::enqueue(cl_kernel kernel, const char* name, const Grid& grid) {
  // Before OpenCL 2.1 an empty range is an error.
  if (grid.groups.x == 0 || grid.groups.y == 0 || grid.groups.z == 0) return {};
  const auto size = [](index groups, index lanes) { return static_cast<std::size_t>(groups * lanes); };
  const Recording::Launch launch{kernel,
                                 name,
                                 {.global = {size(grid.groups.x, grid.lanes.x), size(grid.groups.y, grid.lanes.y),
                                             size(grid.groups.z, grid.lanes.z)},
                                  .local = {size(1, grid.lanes.x), size(1, grid.lanes.y), size(1, grid.lanes.z)}}};
  if (!is_recording()) return enqueue(launch);
  recording_->add(launch);
  return {};
}

Status Runtime::enqueue(const Recording::Launch& launch) {
  const auto& [global, local] = launch.range;
  cl_event event = nullptr;
  const cl_int error = clEnqueueNDRangeKernel(queue_, launch.kernel, 3, nullptr, global, local, 0, nullptr,
                                              options_.profiling ? &event : nullptr);
  if (error != CL_SUCCESS)
    return error_status(error, "OpenCL kernel " + std::string(launch.name) + " of " + std::to_string(global[0]) +
                                   " x " + std::to_string(global[1]) + " x " + std::to_string(global[2]) +
                                   " work-items on " + record_.name);
  if (event != nullptr) events_.push_back(event);
  if (events_.size() == max_events) sum_events();
  return {};
}

Expected<Kernel*> Runtime::kernel(const ProgramKey& key, const char* name) {
  if (!is_recording()) return programs_->kernel(key, name);
  auto made = programs_->new_kernel(key, name);
  if (!made) return failure(std::move(made.error()));
  return recording_->keep(std::move(*made));
}

Status Runtime::begin_recording() {
  if (is_recording()) return invalid("a recording is under way; it must end before the next one begins");
  recording_ = std::make_unique<Recording>(faults_->recorded());
  return {};
}

Status Runtime::check_not_recording(const char* what) const {
  return is_recording() ? unsupported(std::string(what) + " goes by at once; it must not be part of a recording")
                        : Status();
}

Status Runtime::replay(const Recording& recording) {
  if (!recording.is_of(faults_->recorded()))
    return invalid("the recording is another device's; it must be one of this Cl");
  if (is_recording()) return invalid("a recording is under way; it must end before one is replayed");
  if (recording.reports()) faults_->note_replay();
  for (const Recording::Launch& launch : recording.launches())
    if (Status status = enqueue(launch); !status.ok()) return status;
  return {};
}

Status Runtime::upload(ClAddress to, std::span<const std::byte> from) {
  if (Status status = check_not_recording("an upload"); !status.ok()) return status;
  if (from.empty()) return {};
  const std::byte* const kept = staging_->keep(from);
  const cl_int error =
      clEnqueueWriteBuffer(queue_, to.memory, kept == nullptr ? CL_TRUE : CL_FALSE, static_cast<std::size_t>(to.offset),
                           from.size(), kept == nullptr ? from.data() : kept, 0, nullptr, nullptr);
  if (error != CL_SUCCESS)
    return error_status(error, "copying " + std::to_string(from.size()) + " bytes to " + record_.name);
  if (kept == nullptr) staging_->begin();
  return {};
}

Status Runtime::download(std::span<std::byte> to, ConstClAddress from) {
  if (Status status = check_not_recording("a download"); !status.ok()) return status;
  if (to.empty()) return {};
  const cl_int error = clEnqueueReadBuffer(queue_, from.memory, CL_TRUE, static_cast<std::size_t>(from.offset),
                                           to.size(), to.data(), 0, nullptr, nullptr);
  if (error != CL_SUCCESS)
    return error_status(error, "copying " + std::to_string(to.size()) + " bytes from " + record_.name);
  staging_->begin();
  programs_->begin_step();
  return {};
}

Status Runtime::wait() {
  const cl_int asked = faults_->ask(queue_);
  if (cl_int error = clFinish(queue_); error != CL_SUCCESS) return error_status(error, "finishing on " + record_.name);
  staging_->begin();
  if (asked != CL_SUCCESS) return error_status(asked, "reading what kernels met on " + record_.name);
  return faults_->keep(queue_);
}

Status Runtime::finish() {
  programs_->begin_step();
  Status waited = wait();
  return waited.ok() ? faults_->tell() : std::move(waited);
}

void Runtime::sum_events() {
  for (cl_event event : std::exchange(events_, {})) {
    cl_ulong begin = 0, end = 0;
    clWaitForEvents(1, &event);
    if (clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_START, sizeof begin, &begin, nullptr) == CL_SUCCESS &&
        clGetEventProfilingInfo(event, CL_PROFILING_COMMAND_END, sizeof end, &end, nullptr) == CL_SUCCESS)
      seconds_ += static_cast<double>(end - begin) * 1e-9;
    clReleaseEvent(event);
  }
}

double Runtime::kernel_seconds() {
  sum_events();
  return std::exchange(seconds_, 0);
}

Status make_room(Cl& cl) { return cl.runtime().make_room(); }

}  // namespace inlay::cl
