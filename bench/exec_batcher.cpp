// What a scheduler's step costs beside the pass that it decides: who is in it, their blocks, the batch with its tables.
// 32 texts that write, of 16 to 2000 tokens, a token each a step; and the same where a prompt of 4000 tokens is cut
// into what the pass has left. Medians of steps, us.
//
// INLAY_BENCH_SHORT=1: few steps.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include <inlay/exec/serve/batcher.hpp>

#include "measure/timing.hpp"

namespace inlay::exec {
namespace {

using measure::median, measure::seconds;

// Texts of so many tokens; all but the last write from the first step on that is timed.
double step_us(index texts, index prompt) {
  BlockPool pool({.layers = 1, .kv_heads = 1, .head_dim = 1, .block_size = 16, .blocks = 16384});
  Batcher batcher(pool, {.tokens = 256, .requests = 64});
  std::vector<std::unique_ptr<Request>> all;
  const auto submit = [&](index tokens) {
    auto request = std::make_unique<Request>();
    request->rank = static_cast<index>(all.size());
    request->prompt = tokens;
    request->most = tokens + 4096;
    request->known.reserve(static_cast<std::size_t>(request->most + 1));
    for (index i = 0; i < tokens; ++i) request->known.push_back(static_cast<Token>(i * (request->rank + 2) % 30000));
    const bool taken = batcher.submit(*request).ok();
    all.push_back(std::move(request));
    return taken;
  };
  Batch batch;
  bool right = true;
  const auto step = [&] {
    const auto parts = batcher.next();
    batch.clear();
    right = right && !parts.empty() && batcher.fill(batch).ok();
    for (const Batcher::Part& part : parts)
      if (part.has_logits) part.request->known.push_back(7);
    batcher.computed();
  };
  for (index i = 0; i < texts; ++i) right = right && submit(16 + i * 1984 / texts);
  while (right && !(batcher.running() == texts && all.back()->writes())) step();
  const int steps = prompt > 0 ? 16 : measure::short_run() ? 20 : 2000;
  const int rounds = prompt > 0 && !measure::short_run() ? 100 : 1;
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    if (prompt > 0) right = right && submit(prompt);
    for (int i = 0; i < steps && right; ++i) times.push_back(seconds(step));
    if (prompt > 0) batcher.remove(*all.back());
  }
  return right ? 1e6 * median(times) : 0;
}

// Returns whether it ran.
bool report(const char* what, index texts, index prompt) {
  const double us = step_us(texts, prompt);
  std::printf("%-40s %6.2f us a step\n", what, us);
  return us > 0;
}

}  // namespace
}  // namespace inlay::exec

int main() {
  const bool writing = inlay::exec::report("32 texts write", 32, 0);
  const bool prompt = inlay::exec::report("32 texts write, a prompt is computed", 32, 4000);
  return writing && prompt ? 0 : 1;
}
