// Ranks that are processes of MPI, on one machine or several: inlay::mpi, where INLAY_MPI is ON.
//
//   auto mpi = MpiComm::make();      // initialises MPI
//   ... mpi->comm() ...
//
// Messages are exchanged by MPI_Isend and MPI_Irecv between each two ranks, so that who waits knows for whom. Open MPI
// and MPICH, MPI 2.0 and later.
#pragma once

#include <memory>

#include <inlay/exec/comm/comm.hpp>

namespace inlay::exec {

class MpiComm {
 public:
  // Once in a process, by the thread that computes. `deadline`: as Comm's.
  static Expected<MpiComm> make(double deadline = Comm().deadline);
  // Finalises MPI. Where another rank gave up or did not come, it ends the processes of all ranks, with exit code 2:
  // one that hangs would keep the others from ending.
  ~MpiComm();
  MpiComm(MpiComm&&) noexcept;
  MpiComm& operator=(MpiComm&&) noexcept;

  // Refers to this object, wherever it is moved.
  Comm comm() const;

 private:
  struct Rank;
  explicit MpiComm(std::unique_ptr<Rank> rank);

  std::unique_ptr<Rank> rank_;
};

}  // namespace inlay::exec
