#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

void Bounds::demand(std::string_view field, int in_list, ConstClAddress at, ByteRange reach) {
  if (!status_.ok()) return;
  const auto name = [&] {
    return std::string(field) + (in_list < 0 ? std::string() : "[" + std::to_string(in_list) + "]");
  };
  if (at.memory == nullptr) {
    status_ = invalid(name() + " begins at byte " + std::to_string(at.offset) + " of no buffer; it must have one");
    return;
  }
  if (at.memory != asked_) {
    const auto bytes = cl_.runtime().memory().bytes_of(at.memory);
    if (!bytes) {
      status_ = {bytes.error().code(), name() + ": " + std::string(bytes.error().message())};
      return;
    }
    asked_ = at.memory;
    bytes_ = static_cast<std::ptrdiff_t>(*bytes);
  }
  // An offset may be any number: nothing is added to it.
  if (-reach.begin <= at.offset && at.offset <= bytes_ - reach.end) return;
  status_ = invalid(name() + " begins at byte " + std::to_string(at.offset) + " of a buffer of " +
                    std::to_string(bytes_) + " bytes and covers bytes " + std::to_string(reach.begin) + ".." +
                    std::to_string(reach.end - 1) + " from there; it must lie within the buffer");
}

}  // namespace inlay::cl
