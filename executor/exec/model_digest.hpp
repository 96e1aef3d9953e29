// What tells models apart of which each has its own norms and embedding.
#pragma once

#include <string>

#include <inlay/model/weights.hpp>

namespace inlay::exec {

// Of norms, of rows of the embedding from its beginning to its end, and of how ranks share it.
std::string digest_of(const Weights& weights);

}  // namespace inlay::exec
