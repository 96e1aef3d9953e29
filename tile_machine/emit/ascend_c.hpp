// A program of the tile machine as one source file in Ascend C: the verbs that each vector core runs for one shape, by
// the table of verb_table.hpp, repetitions as loops, what depends on the core by its number.
#pragma once

#include <string>

#include <inlay/core/status.hpp>
#include <tl/expected.hpp>

#include "tile_machine/run/verb_log.hpp"

namespace inlay::npu::emit {

// `kernel`: its name; `about`: the first line's words. Errors, by name: a verb that the table does not have or not for
// such operands, addresses that no formula of the core's number gives, too little room for the functions' scratch.
tl::expected<std::string, Status> ascend_c(const VerbLog& log, const Device& device, const std::string& kernel,
                                           const std::string& about);

}  // namespace inlay::npu::emit
