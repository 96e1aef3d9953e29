#include "cl_kernels/runtime/device_faults.hpp"

#include <inlay/cl_errors.hpp>

namespace inlay::cl {

cl_int DeviceFaults::ask(cl_command_queue queue) {
  if (!may_have_met()) return CL_SUCCESS;
  return clEnqueueReadBuffer(queue, record_, CL_FALSE, 0, sizeof *met_, met_.get(), 0, nullptr, nullptr);
}

const Describe* DeviceFaults::find(FaultSlot slot) const {
  if (slot < 0) return recorded_->find(slot);
  return static_cast<std::size_t>(slot) < slots_.size() ? &slots_[static_cast<std::size_t>(slot)] : nullptr;
}

Status DeviceFaults::keep(cl_command_queue queue) {
  if (may_have_met() && met_->claimed != 0) {
    // Until the record is clear it names one of these places.
    const Record none;
    if (cl_int error = clEnqueueWriteBuffer(queue, record_, CL_TRUE, 0, sizeof none, &none, 0, nullptr, nullptr);
        error != CL_SUCCESS)
      return error_status(error, "clearing what kernels met");
    const Describe* const describe = find(met_->slot);
    if (kept_.ok())
      kept_ = describe != nullptr ? (*describe)(met_->at, met_->value)
                                  : Status(StatusCode::internal, "a kernel reported a fault at a slot of number " +
                                                                     std::to_string(met_->slot));
  }
  slots_.clear();
  recorded_->waited();
  replayed_ = false;
  return {};
}

}  // namespace inlay::cl
