// Rank 0 decides what is computed and draws tokens; the others compute along with it. So whoever uses an engine of
// several ranks needs not know of them, and only rank 0 has a text.
//
//   rank 0    auto engine = make_engine(config, weights, run, {.comm = comm, ..});      // tells the others of each
//   pass others    auto engine = make_engine(.. the same ..);
//             Status status = follow(**engine, comm);                                 // until rank 0's engine is gone
#pragma once

#include <memory>
#include <string_view>

#include <inlay/exec/engine.hpp>

namespace inlay::exec {

// Before the first step: do all ranks have the same model, backend, options and version? Each gets the same Status,
// which names what differs, and both values. `config` and `weights` are the rank's own.
Status meet(const ModelConfig& config, const Weights& weights, const EngineOptions& options, std::string_view backend);

// Rank 0's engine, which tells the others; theirs stay as they are.
std::unique_ptr<Engine> lead(std::unique_ptr<Engine> engine, const Comm& comm);

// What rank 0 tells, computed by an engine of another rank. The end is ok where rank 0's engine is gone; a failure that
// the others cannot know of they are told.
Status follow(Engine& engine, const Comm& comm);

// The others get this failure of a rank that cannot go on.
void give_up(const Comm& comm, const Status& status);

}  // namespace inlay::exec
