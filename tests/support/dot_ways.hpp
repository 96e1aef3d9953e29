// Every way in which the OpenCL device takes dot products of bytes (cl_kernels/runtime/dot.hpp). The sweeps meet the
// best one in the per-item shape and what every OpenCL C has in the per-group shape; the others would be seen on other
// machines alone.
#pragma once

#include <string>

#include "cl_kernels/runtime/runtime.hpp"
#include "tests/support/backends.hpp"

namespace inlay::test {

// test(device) once for each device and way.
template <class Test> void on_every_dot_way(Test&& test) {
  for (WatchedCl* device : cl_devices_as_written()) {
    cl::Runtime& runtime = device->cl().runtime();
    const cl::Dot best = runtime.dot();
    for (const cl::Dot& way : cl::dot_ways(runtime)) {
      runtime.take(way);
      const std::string label = device->label() + ", " + (*way.name ? way.name : "no way") + std::to_string(way.value);
      SCOPED_TRACE(label);
      if (!::testing::Test::HasFatalFailure()) test(*device);
    }
    runtime.take(best);
  }
}

}  // namespace inlay::test
