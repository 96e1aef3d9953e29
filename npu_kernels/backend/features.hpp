// What a device can do at all, whatever its sizes and speeds are: its vector operations, products, drains and paths.
// Programs are tested on the descriptions that the library brings; one that can do something else, or less, has each
// program tried without data before it is said to be supported.
#pragma once

#include <string>

#include "tile_machine/device/device.hpp"

namespace inlay::npu {

// Equal texts: a verb that one of them refuses for what it is the other refuses, too.
std::string features_of(const Device& device);

// They are those of one of descriptions().
bool has_known_features(const Device& device);

// Products of `in`, summed in `sum`, and a way out for the sums. Errors: unsupported, with what the device lacks.
Status lacks_products(const Device& device, DType in, DType sum);

}  // namespace inlay::npu
