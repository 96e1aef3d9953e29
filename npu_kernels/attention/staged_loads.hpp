// What the matrix unit reads, on its way into staging memory: q of a unit, tiles of K and V.
#pragma once

#include <vector>

#include "npu_kernels/attention/matrix_tiles.hpp"

namespace inlay::npu {

class StagedLoads {
 public:
  StagedLoads(Core& core, const AttentionProblem& problem, const MatrixPlan& plan);
  // q with the first tile of a unit. The blocks that hold the tile stay for load_v.
  void load_k(const KeyWork& work, std::vector<index>& blocks);
  void load_v(const KeyWork& work, const std::vector<index>& blocks);
  Ring& q() { return q_; }
  Ring& k() { return k_; }
  Ring& v() { return v_; }

 private:
  void load_cache(const Tensor& tile, const Cached& cached, const KeyWork& work, const std::vector<index>& blocks);
  void read_table(const KeyWork& work, std::vector<index>& blocks);

  Core& core_;
  const AttentionProblem& problem_;
  const MatrixPlan& plan_;
  const MatrixTiles& t_;
  Ring q_, k_, v_;
};

}  // namespace inlay::npu
