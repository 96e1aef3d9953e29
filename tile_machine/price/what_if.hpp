// A device as it might be: the description with some of its figures multiplied.
//
//   what_if(text, "ub=2x,dram=0.5x")
//
//   dram, l2        bandwidth, of all cores and of one           ghz, cores        as they stand
//   a memory        its bytes: ub, l1, vtcm                      vector, matrix    speed: cycles are divided
//   a queue         speed of its paths: mte2, aiv.mte3           /dram/latency     any other number, by its JSON
//   pointer
//
// Names are those of the description, in either case; of "AIV.MTE2" the last part is enough.
#pragma once

#include <string>
#include <string_view>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"

namespace inlay::npu {

// Errors: a change that is none, a name that the description does not have (with those that it has). Whether the
// result is a device is parse_device's to say.
tl::expected<std::string, Status> what_if(std::string_view description, std::string_view changes);

}  // namespace inlay::npu
