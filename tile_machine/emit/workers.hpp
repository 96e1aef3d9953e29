// Cores of one kind that run one program but for its numbers: each number as a formula of the core's own.
//
//   affine     4096 * worker
//   of pairs   4096 * (worker / 2) + 512 * (worker % 2)      a core, and which of its two vector cores
//   parts      4096 * part_142, part_142 = 142 * worker / 48  units that are shared out
//   listed     units_3[worker]                                anything else
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tile_machine/emit/rolled.hpp"

namespace inlay::npu::emit {

using Numbers = std::vector<std::int64_t>;

struct Alike {
  Numbers workers;
  std::vector<std::vector<Statement>> programs;  // of each
};

class Formulas {
 public:
  // Of `workers` of a kind in all.
  explicit Formulas(std::int64_t workers) : workers_(workers) {}

  // One program for all of them.
  std::vector<Statement> joined(Alike& alike);
  // The parts and lists that it names.
  std::string declarations() const;

 private:
  // A number of all workers as the base of the first formula that gives it, and that formula's other part.
  struct OfWorker {
    std::int64_t base = 0;
    std::string rest;
  };
  OfWorker of_worker(const Numbers& workers, const Numbers& numbers);
  std::int64_t step_of_parts(const Numbers& workers, const Numbers& numbers, std::int64_t units) const;
  bool in_parts(const Numbers& workers, const Numbers& numbers, OfWorker& found);
  OfWorker listed(const Numbers& workers, const Numbers& numbers);

  std::int64_t workers_;
  Numbers units_;               // that some number depends on
  std::vector<Numbers> lists_;  // by worker
};

// "worker < 24": of those of a class among all.
std::string condition(const Numbers& workers, std::int64_t all);

}  // namespace inlay::npu::emit
