// This program between Inlay and the loader: every call that Inlay makes passes here, and fails where `plan` says so.
// For one file of a program, which asks for the calls of OpenCL 1.2 before it includes anything.
#pragma once

#include <CL/cl.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "measure/behind.hpp"

namespace inlay::test {

inline bool own_memory = false;  // as the device says of itself, in place of what is so

struct Plan {
  int fails_at = 0;   // this call, counted from 1; 0: none
  bool lost = false;  // and all that give the queue something, from then on
  cl_int error = CL_OUT_OF_RESOURCES;

  int calls = 0;
  std::vector<int> of_queue = {};         // those that give the queue something
  std::string failed = {};                // the last call that did
  std::map<std::string, int> alive = {};  // objects that were made or retained, and not given back
};
inline Plan plan;

// The answer in place of the driver's.
inline cl_int refused(std::string_view call) {
  ++plan.calls;
  const bool of_queue = call.starts_with("clEnqueue") || call == "clFinish";
  if (of_queue) plan.of_queue.push_back(plan.calls);
  if (plan.fails_at == 0 || plan.calls < plan.fails_at) return CL_SUCCESS;
  if (plan.calls > plan.fails_at && !(plan.lost && of_queue)) return CL_SUCCESS;
  plan.failed = call;
  return plan.error;
}

using Notify = void(CL_CALLBACK*)(const char*, const void*, size_t, void*);
using Built = void(CL_CALLBACK*)(cl_program, void*);
using Events = const cl_event*;
using Sizes = const size_t*;

#define ANSWERS(call, declared, named)                 \
  extern "C" cl_int call declared {                    \
    BEHIND(call);                                      \
    const cl_int error = refused(#call);               \
    return error == CL_SUCCESS ? behind named : error; \
  }
#define MAKES(Object, call, declared, named)                           \
  extern "C" Object call declared {                                    \
    BEHIND(call);                                                      \
    cl_int own = CL_SUCCESS;                                           \
    if (error == nullptr) error = &own;                                \
    *error = refused(#call);                                           \
    Object const made = *error == CL_SUCCESS ? behind named : nullptr; \
    if (made != nullptr) ++plan.alive[#Object];                        \
    return made;                                                       \
  }
#define RETAINS(Object, call)                                                   \
  extern "C" cl_int call(Object object) {                                       \
    BEHIND(call);                                                               \
    if (const cl_int error = refused(#call); error != CL_SUCCESS) return error; \
    ++plan.alive[#Object];                                                      \
    return behind(object);                                                      \
  }
#define RELEASES(Object, call)            \
  extern "C" cl_int call(Object object) { \
    BEHIND(call);                         \
    --plan.alive[#Object];                \
    return behind(object);                \
  }

ANSWERS(clGetPlatformIDs, (cl_uint n, cl_platform_id* p, cl_uint* count), (n, p, count))
// A platform without devices, as a driver that is installed for hardware that is not there, is passed over whether its
// call fails or not.
extern "C" cl_int clGetDeviceIDs(cl_platform_id p, cl_device_type t, cl_uint n, cl_device_id* d, cl_uint* count) {
  BEHIND(clGetDeviceIDs);
  const cl_int answer = behind(p, t, n, d, count);
  if (answer == CL_DEVICE_NOT_FOUND) return answer;
  const cl_int error = refused("clGetDeviceIDs");
  return error == CL_SUCCESS ? answer : error;
}
ANSWERS(clGetPlatformInfo, (cl_platform_id o, cl_uint what, size_t n, void* p, size_t* size), (o, what, n, p, size))
extern "C" cl_int clGetDeviceInfo(cl_device_id o, cl_uint what, size_t n, void* p, size_t* size) {
  BEHIND(clGetDeviceInfo);
  if (const cl_int error = refused("clGetDeviceInfo"); error != CL_SUCCESS) return error;
  const cl_int answer = behind(o, what, n, p, size);
  if (own_memory && what == CL_DEVICE_HOST_UNIFIED_MEMORY && p != nullptr) *static_cast<cl_bool*>(p) = CL_FALSE;
  return answer;
}
ANSWERS(clGetCommandQueueInfo, (cl_command_queue o, cl_uint what, size_t n, void* p, size_t* size),
        (o, what, n, p, size))
ANSWERS(clGetProgramInfo, (cl_program o, cl_uint what, size_t n, void* p, size_t* size), (o, what, n, p, size))
ANSWERS(clGetProgramBuildInfo, (cl_program o, cl_device_id d, cl_uint what, size_t n, void* p, size_t* size),
        (o, d, what, n, p, size))
ANSWERS(clGetEventProfilingInfo, (cl_event o, cl_uint what, size_t n, void* p, size_t* size), (o, what, n, p, size))
ANSWERS(clGetMemObjectInfo, (cl_mem o, cl_uint what, size_t n, void* p, size_t* size), (o, what, n, p, size))
ANSWERS(clWaitForEvents, (cl_uint n, Events list), (n, list))
ANSWERS(clBuildProgram,
        (cl_program o, cl_uint n, const cl_device_id* list, const char* options, Built call, void* data),
        (o, n, list, options, call, data))
ANSWERS(clGetKernelInfo, (cl_kernel o, cl_kernel_info w, size_t n, void* p, size_t* bytes), (o, w, n, p, bytes))
ANSWERS(clGetKernelArgInfo, (cl_kernel o, cl_uint i, cl_kernel_arg_info w, size_t n, void* p, size_t* bytes),
        (o, i, w, n, p, bytes))
ANSWERS(clSetKernelArg, (cl_kernel o, cl_uint i, size_t n, const void* p), (o, i, n, p))
ANSWERS(clFinish, (cl_command_queue o), (o))
ANSWERS(clEnqueueReadBuffer,
        (cl_command_queue o, cl_mem m, cl_bool waits, size_t at, size_t n, void* p, cl_uint events, Events list,
         cl_event* event),
        (o, m, waits, at, n, p, events, list, event))
ANSWERS(clEnqueueWriteBuffer,
        (cl_command_queue o, cl_mem m, cl_bool waits, size_t at, size_t n, const void* p, cl_uint events, Events list,
         cl_event* event),
        (o, m, waits, at, n, p, events, list, event))
ANSWERS(clEnqueueCopyBuffer,
        (cl_command_queue o, cl_mem from, cl_mem to, size_t at, size_t to_at, size_t n, cl_uint events, Events list,
         cl_event* event),
        (o, from, to, at, to_at, n, events, list, event))
ANSWERS(clEnqueueUnmapMemObject, (cl_command_queue o, cl_mem m, void* p, cl_uint events, Events list, cl_event* event),
        (o, m, p, events, list, event))
extern "C" void* clEnqueueMapBuffer(cl_command_queue o, cl_mem m, cl_bool waits, cl_map_flags flags, size_t at,
                                    size_t n, cl_uint events, Events list, cl_event* event, cl_int* error) {
  BEHIND(clEnqueueMapBuffer);
  *error = refused("clEnqueueMapBuffer");
  return *error == CL_SUCCESS ? behind(o, m, waits, flags, at, n, events, list, event, error) : nullptr;
}
extern "C" cl_int clEnqueueNDRangeKernel(cl_command_queue o, cl_kernel k, cl_uint n, Sizes first, Sizes global,
                                         Sizes local, cl_uint events, Events list, cl_event* event) {
  BEHIND(clEnqueueNDRangeKernel);
  if (const cl_int error = refused("clEnqueueNDRangeKernel"); error != CL_SUCCESS) return error;
  if (event != nullptr) ++plan.alive["cl_event"];
  return behind(o, k, n, first, global, local, events, list, event);
}
MAKES(cl_context, clCreateContext,
      (const cl_context_properties* about, cl_uint n, const cl_device_id* list, Notify call, void* data, cl_int* error),
      (about, n, list, call, data, error))
MAKES(cl_command_queue, clCreateCommandQueue,
      (cl_context c, cl_device_id d, cl_command_queue_properties about, cl_int* error), (c, d, about, error))
MAKES(cl_mem, clCreateBuffer, (cl_context c, cl_mem_flags flags, size_t n, void* p, cl_int* error),
      (c, flags, n, p, error))
MAKES(cl_program, clCreateProgramWithSource, (cl_context c, cl_uint n, const char** text, Sizes length, cl_int* error),
      (c, n, text, length, error))
MAKES(cl_program, clCreateProgramWithBinary,
      (cl_context c, cl_uint n, const cl_device_id* list, Sizes length, const unsigned char** binary, cl_int* of_binary,
       cl_int* error),
      (c, n, list, length, binary, of_binary, error))
MAKES(cl_kernel, clCreateKernel, (cl_program o, const char* name, cl_int* error), (o, name, error))
RETAINS(cl_context, clRetainContext)
RETAINS(cl_command_queue, clRetainCommandQueue)
RELEASES(cl_context, clReleaseContext)
RELEASES(cl_command_queue, clReleaseCommandQueue)
RELEASES(cl_mem, clReleaseMemObject)
RELEASES(cl_program, clReleaseProgram)
RELEASES(cl_kernel, clReleaseKernel)
RELEASES(cl_event, clReleaseEvent)

}  // namespace inlay::test
