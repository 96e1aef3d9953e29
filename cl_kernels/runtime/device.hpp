// Which devices there are, what they say of themselves, and the choice of one.
#pragma once

#include <string>
#include <vector>

#include <inlay/cl.hpp>

namespace inlay::cl {

struct Found {
  cl_platform_id platform;
  cl_device_id id;
  ClDevice record;
};

Expected<std::vector<Found>> find_devices();

// What the device `id` says of itself.
Expected<ClDevice> describe(cl_device_id id);

// The one whose name, or whose platform's, holds `wanted`, whatever the letters' case; of several, and where nothing is
// wanted, GPUs come first, then the most memory. A name that no device has is refused with those that there are.
Expected<Found> choose_device(const std::string& wanted);

}  // namespace inlay::cl
