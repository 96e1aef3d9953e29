#include "tools/serve/metrics.hpp"

#include <cstdio>

namespace inlay::tools {

std::string metrics_of(const Worker::Counts& counts, const std::map<int, index>& requests) {
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text += std::string("# HELP ") + name + " " + help + "\n# TYPE " + name + " " + type + "\n";
  };
  const auto one = [&](const char* name, const char* type, const char* help, index value) {
    head(name, type, help);
    text += std::string(name) + " " + std::to_string(value) + "\n";
  };
  head("inlay_requests_total", "counter", "Completions and chat completions by the status of their answer.");
  for (const auto& [status, count] : requests)
    text += "inlay_requests_total{status=\"" + std::to_string(status) + "\"} " + std::to_string(count) + "\n";
  head("inlay_texts_total", "counter", "Texts that have ended, by how.");
  const char* const names[] = {"stop", "length", "aborted", "failed"};
  for (std::size_t i = 0; i < std::size(names); ++i)
    text += std::string("inlay_texts_total{finish=\"") + names[i] + "\"} " + std::to_string(counts.finished[i]) + "\n";
  one("inlay_texts_running", "gauge", "Texts that have blocks of the cache.", counts.running);
  one("inlay_texts_waiting", "gauge", "Texts that wait for blocks, or for their prompt.", counts.waiting);
  one("inlay_prompt_tokens_computed_total", "counter", "Tokens of prompts that passes computed.", counts.prompt_tokens);
  one("inlay_prompt_tokens_reused_total", "counter", "Tokens of prompts that were in the cache.", counts.reused);
  one("inlay_generated_tokens_total", "counter", "Tokens of the texts that have ended.", counts.new_tokens);
  one("inlay_preemptions_total", "counter", "Texts that gave their blocks back, to be computed again.",
      counts.preemptions);
  one("inlay_swaps_total", "counter", "Those of them whose blocks were copied to the host's memory instead.",
      counts.swaps);
  head("inlay_step_seconds", "summary", "Time of a pass of the model.");
  char seconds[32];
  std::snprintf(seconds, sizeof(seconds), "%.6f", counts.step_seconds);
  text += std::string("inlay_step_seconds_sum ") + seconds + "\n";
  text += "inlay_step_seconds_count " + std::to_string(counts.steps) + "\n";
  return text;
}

}  // namespace inlay::tools
