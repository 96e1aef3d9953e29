// What `inlay tune` found where the usual values are not the best: vendor, architecture, device.
#include "cl_kernels/tuning/tuning.hpp"

namespace inlay::cl {

std::span<const Known> known_devices() { return {}; }

}  // namespace inlay::cl
