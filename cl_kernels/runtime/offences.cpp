#include "cl_kernels/runtime/offences.hpp"

#include "cl_kernels/runtime/errors.hpp"

namespace inlay::cl {

Status Offences::finish(cl_command_queue queue, const std::string& device) {
  const auto what = [&](const char* doing) { return std::string(doing) + " on " + device; };
  cl_int error = CL_SUCCESS;
  if (!places_.empty())
    error = clEnqueueReadBuffer(queue, record_, CL_FALSE, 0, sizeof met_, &met_, 0, nullptr, nullptr);
  const cl_int finished = clFinish(queue);
  if (finished != CL_SUCCESS) return error_status(finished, what("finishing"));
  if (error != CL_SUCCESS) return error_status(error, what("reading what kernels met"));
  if (places_.empty() || met_.claimed == 0) {
    places_.clear();
    return {};
  }
  // Until the record is clear it names one of these places.
  const Record none;
  error = clEnqueueWriteBuffer(queue, record_, CL_TRUE, 0, sizeof none, &none, 0, nullptr, nullptr);
  if (error != CL_SUCCESS) return error_status(error, what("clearing what kernels met"));
  Status told{StatusCode::internal, "a kernel met an offence at a place of number " + std::to_string(met_.place)};
  if (met_.place >= 0 && static_cast<std::size_t>(met_.place) < places_.size())
    told = places_[static_cast<std::size_t>(met_.place)](met_.at, met_.value);
  places_.clear();
  return told;
}

}  // namespace inlay::cl
