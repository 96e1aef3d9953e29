// The OpenCL devices of this machine, as `inlay devices` shows them.
#pragma once

namespace inlay::tools {

void print_opencl();

}  // namespace inlay::tools
