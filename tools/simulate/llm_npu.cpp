// llm.npu's ablation (Xu et al., ASPLOS 2025): prompts in chunks on an NPU of INT8 and a CPU, in order and out of it.
//
// A layer of a chunk is six subgraphs, as the paper counts them (144 in 24 layers):
//
//   cpu  norm          attention         norm           attention of chunk i reads the keys of chunks 0 to i
//   npu       q, k, v             o            feed-forward
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/device/host_devices.hpp>
#include <inlay/exec/schedule/run.hpp>

#include "tools/simulate/report.hpp"

namespace inlay::tools {
namespace {

using exec::DeviceTimeline;
using exec::Edges;
using exec::Policy;

struct Model {
  const char* name;
  index layers, dim, heads, kv_heads, head_dim, hidden;
  double prepare_us;  // builds and optimises a graph, figure 2; 0: not published
};
constexpr Model qwen{"Qwen1.5-1.8B", 24, 2048, 16, 16, 128, 5504, 450e3 + 3300e3};
constexpr Model gemma{"Gemma-2B", 18, 2048, 8, 1, 256, 16384, 360e3 + 11540e3};
constexpr Model llama{"LlaMA-2-7B", 32, 4096, 32, 32, 128, 11008, 0};

// Table 3, a Redmi K70 Pro (Snapdragon 8 Gen 3): an NPU's INT8 product of at most 64 rows takes what its weights take,
// and a launch. A line through the smallest and the largest: 0.9 ms at 2048 x 2048, 4.1 ms at 4096 x 11008. More rows
// are passes of 64, an assumption.
constexpr double small_bytes = 2048.0 * 2048, large_bytes = 4096.0 * 11008;
constexpr double us_a_byte = (4100 - 900) / (large_bytes - small_bytes), launch_us = 900 - us_a_byte * small_bytes;
constexpr index pass_rows = 64;
// The CPU's INT8 rate is the mean of the six products of that table; of floats half of it, an assumption.
constexpr double cpu_int8_flops_a_us =
    2e-6 * 1e6 / 6 *
    (64.0 * 2048 * 2048 / 4.2e3 + 64.0 * 2048 * 8192 / 6.8e3 + 64.0 * 2048 * 11008 / 11.6e3 +
     32.0 * 4096 * 4096 / 7.5e3 + 32.0 * 4096 * 8192 / 13.1e3 + 32.0 * 4096 * 11008 / 19.6e3);
constexpr double cpu_float_flops_a_us = cpu_int8_flops_a_us / 2;
// HeteroLLM's, of the same chip: one processor alone.
constexpr double cpu_bytes_a_us = 43.3e3;
constexpr double per_group = (8.1 + 10.7) / 2;  // figure 4: a product per group over one per tensor
constexpr double outlier_channels = 0.002;      // section 3.3: 0.1% to 0.3%
constexpr double kept = 0.15;                   // section 3.3: 85% of the layers' outliers are pruned

enum Subgraph { norm_1, qkv, attention, o, norm_2, ffn, subgraphs };

double weight_bytes(const Model& m, int subgraph) {
  const auto dim = static_cast<double>(m.dim), q = static_cast<double>(m.heads * m.head_dim);
  if (subgraph == qkv) return dim * (q + 2 * static_cast<double>(m.kv_heads * m.head_dim));
  return subgraph == o ? dim * q : 3 * dim * static_cast<double>(m.hidden);
}

double npu_us(const Model& m, int subgraph, index rows) {
  return launch_us + us_a_byte * weight_bytes(m, subgraph) * std::ceil(static_cast<double>(rows) / pass_rows);
}

double cpu_us(const Model& m, int subgraph, index rows, index keys) {
  const auto r = static_cast<double>(rows);
  if (subgraph != attention) return 4 * r * static_cast<double>(m.dim) * sizeof(float) / cpu_bytes_a_us;
  return 4 * r * static_cast<double>(keys * m.heads * m.head_dim) / cpu_float_flops_a_us;
}

// The prompt's subgraphs with what they wait for, and what each takes.
class Prompt {
 public:
  Prompt(const Model& model, index tokens, index chunk, bool outliers) {
    const index chunks = (tokens + chunk - 1) / chunk;
    for (index i = 0; i < chunks; ++i)
      for (index layer = 0; layer < model.layers; ++layer)
        for (int each = 0; each < subgraphs; ++each) {
          const bool on_npu = each == qkv || each == o || each == ffn;
          exec::Accesses accesses{written(place(model, i, layer, each))};
          if (each > 0 || layer > 0) accesses.push_back(read(place(model, i, layer, each) - 1, 1));
          if (each == qkv) accesses.push_back(written(cache(layer, chunks) + i));
          if (each == attention) accesses.push_back(read(cache(layer, chunks), i + 1));
          // What outliers need beside the NPU: layers near both ends keep them.
          const double near_end = static_cast<double>(std::min(layer, model.layers - 1 - layer));
          const bool shadow = outliers && on_npu && near_end < kept / 2 * static_cast<double>(model.layers);
          if (shadow) {
            exec::Accesses beside{written(shadow_of(accesses[0].begin))};
            if (accesses.size() > 1) beside.push_back(accesses[1]);
            add("outliers", i, 1,
                2 * static_cast<double>(chunk) * outlier_channels * weight_bytes(model, each) / cpu_float_flops_a_us,
                std::move(beside));
            accesses.push_back(read(shadow_of(accesses[0].begin), 1));
          }
          add(on_npu ? "linears" : "floats", i, on_npu ? 0 : 1,
              on_npu ? npu_us(model, each, chunk) : cpu_us(model, each, chunk, (i + 1) * chunk), std::move(accesses));
        }
  }

  DeviceTimeline run(const Edges& edges, Policy policy) const {
    const exec::StepTime time = [this](const exec::GraphStep& step) -> Expected<double> {
      return us_[static_cast<std::size_t>(&step - graph_.steps().data())];
    };
    exec::SimDevice npu({.name = "npu", .kind = exec::DeviceKind::npu}, {}, time);
    exec::SimDevice cpu({.name = "cpu", .kind = exec::DeviceKind::cpu}, {}, time);
    exec::Device* const devices[] = {&npu, &cpu};
    DeviceTimeline timeline;
    const Status status = exec::run_steps(
        {.graph = graph_, .edges = edges, .devices = devices, .placement = placement_, .policy = policy}, timeline);
    return status.ok() ? timeline : DeviceTimeline();
  }
  DeviceTimeline in_order() const { return run(Edges::in_order(graph_.size()), Policy::fifo); }
  DeviceTimeline overlapped(Policy policy) const { return run(Edges::of(graph_.accesses()), policy); }

 private:
  static index place(const Model& model, index chunk, index layer, int subgraph) {
    return (chunk * model.layers + layer) * subgraphs + subgraph;
  }
  static index cache(index layer, index chunks) { return (index{1} << 30) + layer * chunks; }
  static std::ptrdiff_t shadow_of(std::ptrdiff_t place) { return place + (std::ptrdiff_t{1} << 31); }
  static exec::Access written(std::ptrdiff_t at) {
    return {.field = "y", .writes = true, .begin = at, .period = 1, .span = 1};
  }
  static exec::Access read(std::ptrdiff_t at, index places) {
    return {.field = "x", .reads = true, .begin = at, .period = places, .span = places};
  }
  void add(const char* name, index chunk, std::size_t device, double us, exec::Accesses accesses) {
    exec::GraphStep step;
    step.name = name;
    step.chunk = chunk;
    step.rows = step.width = 1;
    step.accesses = std::move(accesses);
    graph_.add(std::move(step));
    placement_.push_back(device);
    us_.push_back(us);
  }

  exec::StepGraph graph_;
  std::vector<std::size_t> placement_;
  std::vector<double> us_;
};

struct Ablation {
  double cpu, naive, chunks, outliers, out_of_order;  // tokens a second
};

Ablation ablation(const Model& m, index tokens) {
  double weights = 0, floats = 0, grouped = 0;
  for (int each = 0; each < subgraphs; ++each) {
    if (each == qkv || each == o || each == ffn) {
      weights += static_cast<double>(m.layers) * weight_bytes(m, each);
      grouped += static_cast<double>(m.layers) * per_group * npu_us(m, each, tokens);
    } else {
      floats += static_cast<double>(m.layers) * cpu_us(m, each, tokens, tokens);
    }
  }
  const auto speed = [&](double us) { return static_cast<double>(tokens) / us * 1e6; };
  const Prompt chunked(m, tokens, 256, true);
  return {.cpu = speed(2 * static_cast<double>(tokens) * weights / cpu_int8_flops_a_us + floats),
          .naive = m.prepare_us > 0 ? speed(m.prepare_us + grouped + floats) : 0,
          .chunks = speed(grouped + floats),
          .outliers = speed(chunked.in_order().makespan_us()),
          .out_of_order = speed(chunked.overlapped(Policy::longest_unlock).makespan_us())};
}

std::string ablations() {
  struct Published {
    const Model& model;
    double cpu, naive, chunks, outliers, out_of_order;
  };
  const Published published[] = {
      {qwen, 65, 25, 37, 395, 569}, {gemma, 46, 18, 91, 355, 420}, {llama, 13, 5, 15, 133, 186}};
  Comparison table;
  for (const Published& each : published) {
    const Ablation is = ablation(each.model, 512);
    const std::string name = each.model.name, where = "figure 19";
    table.row(name + ", CPU (llama.cpp)", is.cpu, each.cpu, where, 0);
    if (is.naive > 0) table.row(name + ", naive", is.naive, each.naive, where, 0);
    table.row(name + ", naive + chunk", is.chunks, each.chunks, where, 0);
    table.row(name + ", + outlier", is.outliers, each.outliers, where, 0);
    table.row(name + ", + out of order", is.out_of_order, each.out_of_order, where, 0);
  }
  return "### The ablation, prompts of 512 tokens, tokens a second\n\n" + table.text() +
         "\nFigure 19's numbers stand in its picture without order; they are told apart by the factors of section "
         "4.7. Two of them, 10.7 for Qwen and 8.9 for LLaMA, lie above what that section says.\n";
}

std::string bubbles() {
  const Prompt one(qwen, 256, 256, true), four(qwen, 1024, 256, true);
  const DeviceTimeline alone = one.in_order();
  Comparison table;
  table.row("NPU's work at 256 tokens, ms", alone.busy_us(0) / 1e3, 315, "section 3.4", 0);
  table.row("NPU's work over the CPU's", alone.busy_us(0) / alone.busy_us(1), 2, "section 3.4: \"about twice\"");
  const auto waits = [](const DeviceTimeline& timeline) { return 100 * timeline.bubble_share(0); };
  const DeviceTimeline in_order = four.in_order();
  table.row("NPU waits, chunks one after the other, %", waits(in_order), 0, "figure 13 begins with overlapped chunks",
            1);
  table.row("NPU waits, chunk order, %", waits(four.overlapped(Policy::chunk_order)), 37,
            "figure 13: naive overlapping", 1);
  table.row("NPU waits, longest unlock, %", waits(four.overlapped(Policy::longest_unlock)), 0.7, "figure 13", 1);
  Table policies({"policy, 1024 tokens in 4 chunks", "ms", "NPU waits", "CPU waits"});
  const auto line = [&](const std::string& name, const DeviceTimeline& timeline) {
    policies.row({name, digits(timeline.makespan_us() / 1e3, 0), digits(100 * timeline.bubble_share(0), 1) + "%",
                  digits(100 * timeline.bubble_share(1), 1) + "%"});
  };
  line("the program's order", in_order);
  for (const Policy policy : exec::policies) line(std::string(name(policy)), four.overlapped(policy));
  return "### Bubbles of Qwen1.5-1.8B\n\n" + table.text() + "\n" + policies.text();
}

}  // namespace

std::string llm_npu_page() {
  return "## llm.npu (mllm-NPU): chunks on CPU and NPU\n\n" + ablations() + "\n" + bubbles();
}

}  // namespace inlay::tools
