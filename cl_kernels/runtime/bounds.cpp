#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::cl {

void Bounds::demand(std::string_view field, int in_list, ConstClAddress at, ByteRange reach, std::ptrdiff_t alignment) {
  if (!status_.ok()) return;
  const auto name = [&] {
    return std::string(field) + (in_list < 0 ? std::string() : "[" + std::to_string(in_list) + "]");
  };
  if (at.memory == nullptr) {
    status_ = invalid(name() + " begins at byte " + std::to_string(at.offset) + " of no buffer; it must have one");
    return;
  }
  if (at.memory != asked_) {
    const auto buffer = cl_.runtime().memory().about(at.memory);
    if (!buffer) {
      status_ = {buffer.error().code(), name() + ": " + std::string(buffer.error().message())};
      return;
    }
    asked_ = at.memory;
    bytes_ = static_cast<std::ptrdiff_t>(buffer->bytes);
    past_line_ = buffer->misalignment;
  }
  // An offset may be any number: nothing is added to it before it is known to lie within.
  if (at.offset < -reach.begin || at.offset > bytes_ - reach.end)
    status_ = invalid(name() + " begins at byte " + std::to_string(at.offset) + " of a buffer of " +
                      std::to_string(bytes_) + " bytes and covers bytes " + std::to_string(reach.begin) + ".." +
                      std::to_string(reach.end - 1) + " from there; it must lie within the buffer");
  else if ((at.offset + past_line_) & (alignment - 1))
    status_ = invalid(name() + " begins at an address that is no multiple of " + std::to_string(alignment) +
                      "; it must be aligned to " + std::to_string(alignment) + " bytes");
}

}  // namespace inlay::cl
