// What ranks have computed of one matrix, brought together behind a linear or before it (RankCut): steps among
// operators, of host memory, that no backend computes. A run that can takes them by gather(step).
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

#include <inlay/core/view.hpp>
#include <inlay/exec/comm/comm.hpp>
#include <inlay/model/rank_shares.hpp>

namespace inlay::exec {

class Gatherer;

struct AllGather {
  static constexpr std::string_view name = "all_gather";

  ConstView<2> own;       // [rows, this rank's columns] f32; may lie in y, in its place
  View<2> y;              // [rows, columns] f32
  RankShares shares;      // of those columns
  Gatherer* by;           // outlives the step
  std::string_view what;  // the linear whose x or y it is, for who reads of a failure
  index layer = -1;       // -1: of none

  Status operator()() const;
};

// Parts of one sum, which every rank adds in the order of ranks: all have the same bits.
struct AllSum {
  static constexpr std::string_view name = "all_sum";

  View<2> y;              // [rows, columns] f32: this rank's part, then the sum
  Gatherer* by;           // outlives the step
  std::string_view what;  // as AllGather's
  index layer = -1;

  Status operator()() const;
};

// One rank's: counts the steps of a pass, so that a failure says where it was.
class Gatherer {
 public:
  explicit Gatherer(const Comm& comm) : comm_(comm) {}

  const Comm& comm() const { return comm_; }
  // Steps are counted from here.
  void begin_pass() { ++pass_, step_ = 0; }
  Status gather(const AllGather& step);
  Status gather(const AllSum& step);

 private:
  Status gather_rows(const AllGather& step);
  Status add_rows(const AllSum& step);

  Comm comm_;
  index pass_ = 0, step_ = 0;
  std::vector<std::size_t> bytes_;    // of each rank
  std::vector<std::byte> own_, all_;  // of several rows, whose columns lie apart
};

inline Status AllGather::operator()() const { return by->gather(*this); }
inline Status AllSum::operator()() const { return by->gather(*this); }

}  // namespace inlay::exec
