// `inlay run --prompts FILE`: many texts at once.
#pragma once

#include <CLI/CLI.hpp>

#include <string>
#include <vector>

#include "tools/answer.hpp"
#include "tools/server.hpp"

namespace inlay::tools {

struct ManyOptions {
  std::string prompts;  // a file with a prompt a line; empty: none are asked for
  TextsOptions texts;

  void add_to(CLI::App& command);
};

// --prompts: the lines of a file, none of them empty.
Expected<std::vector<std::string>> prompts_of(const std::string& path);

// The exit code of the program.
int run_many(const ManyOptions& options, const ModelOptions& model_options, const AnswerOptions& answers,
             const LoadedModel& model);

}  // namespace inlay::tools
