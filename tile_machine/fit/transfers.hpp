// What a path takes for its transfers, from the times of a log's transfers. In a queue with several under way
//
//   end = max(start + latency, the one before it ended) + per_byte * bytes + per_run * runs
//
// (time/timing.hpp), so that a transfer which began while another's bytes moved tells what bytes and runs take, and one
// that began later the latency too. Left out are transfers beside which another queue moved global memory.
#pragma once

#include <span>

#include "tile_machine/fit/log.hpp"

namespace inlay::npu {

struct TransferFit {
  Change change = Change::none;
  std::size_t samples = 0, alone = 0, used = 0;  // of the path; alone on global memory; that the figures stand on
  bool rate_determined = false, latency_determined = false, run_determined = false;
  double latency = 0, per_byte = 0, per_run = 0;  // cycles
  double latency_error = 0, per_byte_error = 0, per_run_error = 0;
  double quotient_error = 0;  // of per_run / per_byte
};

// Of path number `path`. `paths` are the device's with what is known better by now: where no transfer tells the latency
// or what a run costs, theirs stands.
TransferFit fit_transfers(const Device& device, const std::vector<Path>& paths, std::size_t path, Change change,
                          std::span<const InstructionLog> logs);

}  // namespace inlay::npu
