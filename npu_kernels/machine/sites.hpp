// Source lines by number: entries of one line (and column) have one.
#pragma once

#include <cstdint>
#include <vector>

#include "npu_kernels/machine/tape.hpp"

namespace inlay::npu {

std::vector<std::uint32_t> sites_of(const Tape& tape);  // by entry

}  // namespace inlay::npu
