// must not compile: static_cast
#include "tests/support/test_space.hpp"

// A device's pointer is no address.
float f(inlay::View<2, inlay::test::TestSpace> device) { return *device.as<float>(); }
