#define CL_USE_DEPRECATED_OPENCL_1_2_APIS  // a queue as every device makes it
#include "tools/cl_devices.hpp"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string>

#include <inlay/cl.hpp>
#include <inlay/cl_errors.hpp>
#include <inlay/ops/add.hpp>

#include "cl_kernels/runtime/device.hpp"
#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::tools {

namespace {

// A name may be that of several devices: each is taken by its id.
Expected<Cl> cl_on(const cl::Found& found) {
  const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                              reinterpret_cast<cl_context_properties>(found.platform), 0};
  cl_int error = CL_SUCCESS;
  cl_context context = clCreateContext(properties, 1, &found.id, nullptr, nullptr, &error);
  if (error != CL_SUCCESS) return failure(cl::error_status(error, "a context"));
  cl_command_queue queue = clCreateCommandQueue(context, found.id, 0, &error);
  auto made = error == CL_SUCCESS ? Cl::make(context, queue) : failure(cl::error_status(error, "a queue"));
  if (queue != nullptr) clReleaseCommandQueue(queue);
  clReleaseContext(context);
  return made;
}

cl_device_id device_of(const Cl& cl) {
  cl_device_id id = nullptr;
  clGetContextInfo(cl.context(), CL_CONTEXT_DEVICES, sizeof id, static_cast<void*>(&id), nullptr);
  return id;
}

// What every program of the device is built with, beside what is the program's.
Expected<std::string> built_with(Cl& cl) {
  cl::Runtime& runtime = cl.runtime();
  const cl::ProgramKey probe = cl::ProgramKey("runtime/probe").number("LANES", runtime.lanes(64));
  const auto kernel = runtime.programs().kernel(probe, "probe");
  if (!kernel) return failure(kernel.error().code(), std::string(kernel.error().message()));
  cl_program program = nullptr;
  std::size_t bytes = 0;
  std::string text;
  const auto ask = [&](void* to) {
    return clGetProgramBuildInfo(program, device_of(cl), CL_PROGRAM_BUILD_OPTIONS, text.size(), to, &bytes);
  };
  cl_int error =
      clGetKernelInfo((*kernel)->object(), CL_KERNEL_PROGRAM, sizeof program, static_cast<void*>(&program), nullptr);
  if (error == CL_SUCCESS) error = ask(nullptr);
  text.resize(bytes);
  if (error == CL_SUCCESS) error = ask(text.data());
  if (error != CL_SUCCESS) return failure(cl::error_status(error, "asking a program for its options"));
  return text;
}

const char* meeting(Cl& cl, const std::string& options) {
  if (cl.runtime().per_item()) return "one lane a row";
  if (options.find("SUBGROUPS=1") != std::string::npos) return "lanes meet by subgroups";
  if (options.find("SHFL=1") != std::string::npos) return "lanes meet by shfl";
  return "lanes meet in local memory";
}

std::string products(Cl& cl) {
  const cl::Dot& dot = cl.runtime().dot();
  const std::string name = dot.name, bits = " of " + std::to_string(32 * dot.value) + " bits";
  if (name == "DOT_VNNI") return "vpdpbusd" + bits;
  if (name == "DOT_MADD") return "vpmaddwd" + bits;
  if (name == "DOT_PTX") return "dp4a";
  if (name == "DOT_KHR") return "dot_4x8packed_ss_int";
  return cl.runtime().per_item() ? "f32" : "OpenCL C";
}

// Halves are stored to nearest, ties to even, subnormal ones too.
Expected<bool> stores_halves(Cl& cl) {
  constexpr std::array<std::uint16_t, 4> a = {0x3c00, 0x3c01, 0x0001, 0x7bff}, b = {0x1000, 0x1000, 0x0001, 0x7bff},
                                         sum = {0x3c00, 0x3c02, 0x0002, 0x7c00};
  std::array<std::uint16_t, 4> got{};
  std::array<ClAddress, 3> room;
  for (ClAddress& one : room) {
    auto made = cl.allocate(sizeof got);
    if (!made) return failure(std::move(made.error()));
    one = *made;
  }
  const auto view = [](ClAddress p) { return View<2, Cl>(p, DType::f16, {1, 4}); };
  Status status = cl.upload(room[0], std::as_bytes(std::span(a)));
  if (status.ok()) status = cl.upload(room[1], std::as_bytes(std::span(b)));
  if (status.ok()) status = run(cl, Add<Cl>{.a = view(room[0]), .b = view(room[1]), .y = view(room[2])});
  if (status.ok()) status = cl.download(std::as_writable_bytes(std::span(got)), room[2]);
  for (ClAddress one : room) cl.release(one);
  if (!status.ok()) return failure(std::move(status));
  return got == sum;
}

// What was tried on the device, or why nothing could be: the first line of it, a compiler says many.
std::string confirmed(const cl::Found& found) {
  const auto why = [](const Status& status) {
    const std::string words(status.message());
    return "cannot build: " + words.substr(0, words.find('\n'));
  };
  auto cl = cl_on(found);
  if (!cl) return why(cl.error());
  const auto options = built_with(*cl);
  if (!options) return why(options.error());
  const auto halves = stores_halves(*cl);
  if (!halves) return why(halves.error());
  return "confirmed: " + cl->options().language + ", " + meeting(*cl, *options) + ", dot products by " + products(*cl) +
         ", " + (cl->runtime().has_doubles() ? "doubles" : "integers for doubles") + ", " +
         (*halves ? "half" : "half wrong");
}

}  // namespace

void print_opencl() {
  const auto devices = cl::find_devices();
  if (!devices) {
    std::printf("cl         %s\n", std::string(devices.error().message()).c_str());
    return;
  }
  const auto chosen = Cl::make();
  constexpr double mib = 1024 * 1024;
  for (const cl::Found& found : *devices) {
    const ClDevice& d = found.record;
    std::printf("cl         %s%s, %s (%s), driver %s\n", d.name.c_str(),
                chosen && device_of(*chosen) == found.id ? "*" : "", d.platform.c_str(), d.vendor.c_str(),
                d.driver.c_str());
    std::printf(
        "           %s, %s shape, %zu units, groups of %zu, %.0f KiB local, %.0f MiB in all, %.0f MiB a buffer%s\n",
        d.language.c_str(), d.is_cpu ? "cpu" : "gpu", d.compute_units, d.max_work_group,
        static_cast<double>(d.local_bytes) / 1024, static_cast<double>(d.global_bytes) / mib,
        static_cast<double>(d.max_allocation) / mib, d.shares_memory ? ", the host's memory" : "");
    std::printf("           %s\n", confirmed(found).c_str());
  }
  if (chosen) std::printf("           tuning: %s\n", chosen->tuning().c_str());
  if (!chosen) std::printf("           none is usable: %s\n", std::string(chosen.error().message()).c_str());
}

}  // namespace inlay::tools
