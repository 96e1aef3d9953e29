// `inlay run --chat`: turns at a terminal, or a line of standard input each.
#pragma once

#include <CLI/CLI.hpp>

#include <string>

#include <inlay/exec/session.hpp>
#include <inlay/text/chat.hpp>

#include "tools/answer.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

struct ChatOptions {
  bool chat = false;
  std::string system;                 // a message before all others; empty: none
  std::string template_file;          // empty: the model's own
  std::vector<std::string> switches;  // NAME=true or NAME=false
  bool stats = false;

  void add_to(CLI::App& command);
};

// The template of this file, or of an empty name the model's own.
Expected<exec::ChatTemplate> find_template(const std::string& file, const exec::Tokenizer& tokenizer);

// The exit code of the program.
int chat(const ChatOptions& options, const AnswerOptions& answers, const LoadedModel& model, exec::Session& session);

}  // namespace inlay::tools
