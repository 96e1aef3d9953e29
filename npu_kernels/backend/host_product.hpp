// The product that functional mode multiplies with: the CPU's vectors, built once per ISA level.
#pragma once

#include <inlay/core/isa.hpp>

#include "tile_machine/arithmetic/host_product.hpp"

namespace inlay::npu {

// Of a level without vectors none: the machine's own loop does it.
tiles::HostProduct host_product(Isa isa);

}  // namespace inlay::npu
