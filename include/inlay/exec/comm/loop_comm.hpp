// Ranks that are threads of one process: for machines without MPI, and what MPI's ranks are tested against.
//
//   LoopComm ranks(2);
//   std::thread other([&] { ... ranks.comm(1) ... });
//   ... ranks.comm(0) ...
//   other.join();
#pragma once

#include <memory>

#include <inlay/exec/comm/comm.hpp>

namespace inlay::exec {

class LoopComm {
 public:
  explicit LoopComm(int size, double deadline = Comm().deadline);
  ~LoopComm();  // every rank's thread has ended
  LoopComm(LoopComm&&) = delete;

  // For one thread; it refers to this object.
  Comm comm(int rank);

 private:
  struct Shared;
  struct Rank;

  std::unique_ptr<Shared> shared_;
};

}  // namespace inlay::exec
