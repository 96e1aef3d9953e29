// The frequencies by which a model turns q and k.
#pragma once

#include <inlay/model/model_config.hpp>
#include <inlay/weights/rope_frequencies.hpp>

namespace inlay::exec {

// `context`: the most tokens that a text will have, which LongRoPE goes by.
Expected<RopeFrequencies> frequencies_of(const RopeConfig& rope, index context);

}  // namespace inlay::exec
