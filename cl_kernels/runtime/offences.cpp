#include "cl_kernels/runtime/offences.hpp"

#include <utility>

#include "cl_kernels/runtime/errors.hpp"

namespace inlay::cl {

Status Offences::collect(cl_command_queue queue) {
  if (!pending()) return {};
  const auto places = std::exchange(places_, {});
  Record record;
  if (cl_int error = clEnqueueReadBuffer(queue, record_, CL_TRUE, 0, sizeof record, &record, 0, nullptr, nullptr);
      error != CL_SUCCESS)
    return error_status(error, "reading what kernels met");
  if (record.claimed == 0) return {};
  const Record none;
  if (cl_int error = clEnqueueWriteBuffer(queue, record_, CL_TRUE, 0, sizeof none, &none, 0, nullptr, nullptr);
      error != CL_SUCCESS)
    return error_status(error, "clearing what kernels met");
  if (record.place < 0 || static_cast<std::size_t>(record.place) >= places.size())
    return {StatusCode::internal, "a kernel met an offence at a place of number " + std::to_string(record.place)};
  return places[static_cast<std::size_t>(record.place)](record.at, record.value);
}

}  // namespace inlay::cl
