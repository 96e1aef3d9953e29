// Many texts of a model: what `run --prompts`, `serve` and `bench serve` share.
#pragma once

#include <CLI/CLI.hpp>

#include <vector>

#include <inlay/exec/serve/server.hpp>

#include "tools/session.hpp"

namespace inlay::tools {

struct TextsOptions {
  index batch = 8;         // that run at once
  index cache_tokens = 0;  // of all of them; 0: four times the context
  index swap_tokens = 0;   // of those that are preempted, in the host's memory

  // Returns what was added.
  std::vector<CLI::Option*> add_to(CLI::App& command);
};

Expected<exec::Server> make_server(const ModelOptions& options, const LoadedModel& model, const TextsOptions& texts);
// What another rank does while rank 0 has that server.
Status follow_server(const ModelOptions& options, const TextsOptions& texts);

}  // namespace inlay::tools
