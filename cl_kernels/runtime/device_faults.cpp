#include "cl_kernels/runtime/device_faults.hpp"

#include "cl_kernels/runtime/errors.hpp"

namespace inlay::cl {

cl_int DeviceFaults::ask(cl_command_queue queue) {
  if (slots_.empty()) return CL_SUCCESS;
  return clEnqueueReadBuffer(queue, record_, CL_FALSE, 0, sizeof *met_, met_.get(), 0, nullptr, nullptr);
}

Status DeviceFaults::keep(cl_command_queue queue) {
  if (slots_.empty()) return {};
  if (met_->claimed != 0) {
    // Until the record is clear it names one of these places.
    const Record none;
    if (cl_int error = clEnqueueWriteBuffer(queue, record_, CL_TRUE, 0, sizeof none, &none, 0, nullptr, nullptr);
        error != CL_SUCCESS)
      return error_status(error, "clearing what kernels met");
    const bool known = met_->slot >= 0 && static_cast<std::size_t>(met_->slot) < slots_.size();
    if (kept_.ok())
      kept_ = known ? slots_[static_cast<std::size_t>(met_->slot)](met_->at, met_->value)
                    : Status(StatusCode::internal,
                             "a kernel reported a fault at a slot of number " + std::to_string(met_->slot));
  }
  slots_.clear();
  return {};
}

}  // namespace inlay::cl
