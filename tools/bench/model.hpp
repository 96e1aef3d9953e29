// What `inlay bench model` is asked for, and what its lines are made of.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/engine.hpp>
#include <inlay/model/model_file.hpp>

#include "measure/processors.hpp"
#include "measure/timing.hpp"
#include "tools/session.hpp"

namespace inlay::tools::bench_model {

inline constexpr index chunk = 512;  // tokens of a prompt in one pass

struct Options {
  ModelOptions model;  // its file; empty: `shape` and `type`
  std::string shape = "llama3.2-1b", type = "bf16";
  std::vector<index> prefill = {64, 512}, depth = {0, 4096}, batch;
  std::vector<exec::Plans> plans = {exec::EngineOptions().plans};  // by turns
  index tokens = 16;
  std::string trace;  // a file: decoding is observed
};

// What of the options stays the same on all ranks, and what is read of a file.
struct Setting {
  std::shared_ptr<const exec::ModelFile> file;
  exec::ModelConfig config;
  ModelOptions model;
};

// What is measured: one rank's processor, and how many ranks there are.
struct Machine {
  Cpu cpu;
  int ranks = 1;
};

// What one token reads of the cache: the keys and values of `depth` tokens.
double cache_bytes(const exec::ModelConfig& config, DType kv_type, index depth);
// Multiply-adds of a prompt count two; its head is read for the last token only. Attention is causal: half of its
// square, or less of layers with a window.
double prefill_flops(const exec::ModelConfig& config, index tokens);
// The end of a line: the share of `limit`, in the units of `rate` and 1e9 of them, unless the figure was disturbed. The
// limit is what this rank's threads can do, which says nothing of several, and bytes are this rank's.
void print_share(const measure::Processors& processors, const Machine& machine, double rate, double limit,
                 const char* unit);

// Passes of each mode in turn: the median of each.
class Turns {
 public:
  explicit Turns(const std::vector<exec::Plans>& plans) : plans_(plans), times_(plans.size()) {}

  exec::Plans next() const { return plans_[turn_ % plans_.size()]; }
  void add(double time) { times_[turn_++ % plans_.size()].push_back(time); }
  // print(time) for each, behind its name where there are several.
  template <class Print> void each(Print&& print) const {
    for (std::size_t i = 0; i < plans_.size(); ++i) {
      for (const auto& [name, plans] : plan_modes())
        if (plans == plans_[i] && plans_.size() > 1) std::printf("plans %-9s ", name.c_str());
      print(measure::median(times_[i]));
    }
  }

 private:
  std::vector<exec::Plans> plans_;
  std::vector<std::vector<double>> times_;
  std::size_t turn_ = 0;
};

// Tokens that --batch texts get together, each behind a prompt of --depth.
int bench_batches(const Options& options, const Setting& setting, const Machine& machine);
// What another rank does meanwhile.
Status follow_batches(const Options& options, const Setting& setting);

}  // namespace inlay::tools::bench_model
