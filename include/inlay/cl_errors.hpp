// OpenCL's error numbers as a Status.
#pragma once

#include <string>
#include <string_view>

#include <CL/cl.h>

#include <inlay/core/status.hpp>

namespace inlay::cl {

std::string_view error_name(cl_int error);

// "<what>: CL_OUT_OF_RESOURCES". No memory is a code of its own, and a lost device or queue is not a caller's fault.
Status error_status(cl_int error, const std::string& what);

}  // namespace inlay::cl
