// How columns are shared by the ranks that compute one model: each has some, in the order of ranks.
#pragma once

#include <algorithm>

#include <inlay/core/dtype.hpp>

namespace inlay::exec {

// Parts of whole units, as even as those allow; the last one may end within a unit.
struct RankShares {
  index columns = 0;  // of all ranks; 0: nothing is shared
  index unit = 1;

  // Where the columns of a rank begin; those of `size`: the end.
  index begin(int rank, int size) const {
    const index units = (columns + unit - 1) / unit;
    return std::min(columns, units * rank / size * unit);
  }
  index count(int rank, int size) const { return begin(rank + 1, size) - begin(rank, size); }

  bool operator==(const RankShares&) const = default;
};

}  // namespace inlay::exec
