#include "cl_kernels/runtime/launch.hpp"

#include <cstring>

#include <inlay/cl_errors.hpp>

namespace inlay::cl {

namespace {

std::string argument_info(cl_kernel kernel, cl_uint argument, cl_kernel_arg_info what) {
  std::size_t bytes = 0;
  if (clGetKernelArgInfo(kernel, argument, what, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string text(bytes, '\0');
  if (clGetKernelArgInfo(kernel, argument, what, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  return text.c_str();
}

// Are the names and types of a kernel's arguments those that the launcher has in mind?
Status check_signature(cl_kernel kernel, const char* name, const char* arguments_name,
                       std::span<const NamedBuffer> buffers) {
  const auto wrong = [&](cl_uint argument, const std::string& is, const std::string& must_be) -> Status {
    return {StatusCode::internal, "argument " + std::to_string(argument) + " of OpenCL kernel " + name + " is " + is +
                                      "; the launcher passes " + must_be};
  };
  cl_uint count = 0;
  if (const cl_int error = clGetKernelInfo(kernel, CL_KERNEL_NUM_ARGS, sizeof count, &count, nullptr);
      error != CL_SUCCESS)
    return error_status(error, "asking OpenCL kernel " + std::string(name) + " for its arguments");
  if (count != buffers.size() + 1)
    return {StatusCode::internal, "OpenCL kernel " + std::string(name) + " has " + std::to_string(count) +
                                      " arguments; the launcher passes " + std::to_string(buffers.size() + 1)};
  const cl_uint last = count - 1;
  for (cl_uint i = 0; i < last; ++i) {
    const auto& [expected, buffer] = buffers[i];
    const std::string type = argument_info(kernel, i, CL_KERNEL_ARG_TYPE_NAME);
    const std::string is = type + " " + argument_info(kernel, i, CL_KERNEL_ARG_NAME);
    // An absent view has no type, and what a kernel casts by itself has any.
    const std::string element =
        type == "void*" || buffer.address.memory == nullptr ? type : std::string(buffer.element) + "*";
    if (const std::string must_be = element + " " + expected; is != must_be) return wrong(i, is, must_be);
  }
  if (const std::string type = argument_info(kernel, last, CL_KERNEL_ARG_TYPE_NAME); type != arguments_name)
    return wrong(last, "a " + type, std::string("a ") + arguments_name);
  return {};
}

}  // namespace

Status detail::launch(Cl& cl, const ProgramKey& key, const char* name, const Grid& grid, const char* arguments_name,
                      std::span<std::byte> arguments, std::span<const NamedBuffer> buffers) {
  Runtime& runtime = cl.runtime();
  auto found = runtime.kernel(key, name);
  if (!found) return std::move(found.error());
  Kernel& kernel = **found;
  if (kernel.is_new() && runtime.programs().tell_arguments())
    if (Status wrong = check_signature(kernel.object(), name, arguments_name, buffers); !wrong.ok()) return wrong;
  const auto failed = [&](cl_int error, cl_uint argument) {
    return error_status(error, "argument " + std::to_string(argument) + " of OpenCL kernel " + name);
  };
  std::byte* begins = arguments.data();
  cl_uint argument = 0;
  for (const NamedBuffer& each : buffers) {
    const BufferArg& buffer = each.buffer;
    cl_int error = CL_SUCCESS;
    if (each.name == faults) {
      error = kernel.set(argument, buffer.address.memory);
    } else {
      const Long begin = buffer.begin();
      std::memcpy(begins, &begin, sizeof begin);
      begins += sizeof begin;
      error = kernel.set(argument, buffer.address.memory, runtime.memory());
    }
    if (error != CL_SUCCESS) return failed(error, argument);
    ++argument;
  }
  if (const cl_int error = kernel.set_bytes(argument, arguments); error != CL_SUCCESS) return failed(error, argument);
  return runtime.enqueue(kernel.object(), name, grid);
}

}  // namespace inlay::cl
