// `inlay run --prompts FILE`: many texts at once.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include "tools/answer.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

struct ManyOptions {
  std::string prompts;     // a file with a prompt a line; empty: none are asked for
  index batch = 8;         // texts that run at once
  index cache_tokens = 0;  // of all of them; 0: four times the context

  void add_to(CLI::App& command);
};

// The exit code of the program.
int run_many(const ManyOptions& options, const ModelOptions& model_options, const AnswerOptions& answers,
             const LoadedModel& model);

}  // namespace inlay::tools
