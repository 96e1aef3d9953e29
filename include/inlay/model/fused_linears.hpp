// Linears of one x (q, k and v; gate and up) as one: it rounds x once, and its threads meet once. The panels of the
// parts lie one after another as they are, so that every number of y is the same, bit for bit.
#pragma once

#include <cstddef>
#include <vector>

#include <inlay/model/linear_weight.hpp>

namespace inlay::exec {

// More bytes than this stay apart: reading them takes milliseconds, of which one call instead of several saves some
// microseconds, and devices bound what a buffer may hold (128 MiB or more in OpenCL 1.2).
inline constexpr std::size_t joined_bytes_most = std::size_t{128} << 20;

// One linear whose channels are those of the parts in their order; or the parts as they came, where
//
// - their packed forms differ: in type, inputs, bits, group, type of scales, zeros or offsets, order of inputs (perm),
//   or in whether there are zeros, offsets or a bias, and of which type
// - a part before the last one ends within a panel of 16 channels
// - together they have more than `max_bytes`
//
// The joined bias goes to `vectors`, which must live as long as the linear. A part's memory is freed as soon as it was
// copied.
Expected<std::vector<LinearWeight>> joined(std::vector<LinearWeight> parts, std::vector<OwnedTensor<1>>& vectors,
                                           std::size_t max_bytes = joined_bytes_most);

// One weight of all experts, whose panels lie behind each other (core/experts.hpp). Refused where their packed forms
// differ.
Expected<LinearWeight> stacked(std::vector<LinearWeight> experts);

}  // namespace inlay::exec
