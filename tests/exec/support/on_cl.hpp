// Tests of models on OpenCL, where there is a device.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "tests/support/cl_devices.hpp"

namespace inlay::exec::test {

class OnCl : public ::testing::Test {
 protected:
  void SetUp() override {
    INLAY_NEEDS(!inlay::test::cl_devices_to_test().empty(), "cl", std::string("no OpenCL device"));
  }

  // run(cl) for each shape.
  template <class Run> void on_each_shape(Run&& run) {
    for (inlay::test::WatchedCl& device : inlay::test::cl_devices_to_test()) {
      SCOPED_TRACE(device.label());
      run(device.cl());
    }
  }
};

}  // namespace inlay::exec::test
