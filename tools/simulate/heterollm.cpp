// HeteroLLM's ablations of Llama-8B on the simulated phone.
//
// A layer is a line of steps: linears on either processor or cut between them, all else on the GPU.
//
//   norm - qkv - rope, cache, attention - o - norm - gate, up - swiglu - down
#include <algorithm>
#include <array>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include <inlay/exec/split/place_line.hpp>
#include <inlay/exec/split/solver.hpp>

#include "tools/simulate/phone.hpp"
#include "tools/simulate/report.hpp"

namespace inlay::tools {
namespace {

constexpr index layers = 32, dim = 4096, kv_dim = 1024, hidden = 14336, vocab = 128256;  // Llama-3-8B
constexpr double bytes_a_weight = 0.5;                                                   // W4A16

struct Linear {
  index outputs, inputs;
};
constexpr Linear linears[] = {{dim + 2 * kv_dim, dim}, {dim, dim}, {2 * hidden, dim}, {dim, hidden}};

class Llama8B {
 public:
  // Of a layer, in order: linears, and before each of them what runs on the GPU.
  struct Step {
    bool linear;
    double gpu_us = 0, npu_us = 0;
  };

  explicit Llama8B(bool fast, Order order = Order::exchanged, std::vector<index> graphs = Phone().graphs)
      : fast_(fast), order_(order), graphs_(std::move(graphs)) {}

  // Microseconds of a prompt.
  double gpu_only(index tokens) const {
    double us = 0;
    for (std::size_t i = 0; i < 4; ++i) us += others_us(i, tokens) + gpu(i)(whole(i, tokens));
    return layers * us + head_us();
  }
  // All of it, in graphs of these sizes; what is no linear takes what the GPU takes for it, for want of a figure.
  double npu_only(index tokens) const {
    double us = 0;
    for (std::size_t i = 0; i < 4; ++i) us += others_us(i, tokens) + npu(i)(whole(i, tokens));
    return layers * us + head_us();
  }
  // Each linear on one processor: placed by dynamic programming. The NPU computes `npu_tokens`, padding included.
  double by_layer(index tokens, const std::vector<index>& npu_passes) const {
    exec::PlacementProblem problem{.devices = 2};
    problem.sync_us = {0, phone_.to_npu_us(fast_), phone_.to_gpu_us(fast_), 0};
    for (index layer = 0; layer < layers; ++layer)
      for (std::size_t i = 0; i < 4; ++i) {
        double npu_us = 0;
        for (const index pass : npu_passes) npu_us += npu(i)(whole(i, pass));
        add(problem, others_us(i, tokens), never);
        add(problem, gpu(i)(whole(i, tokens)), npu_us);
      }
    add(problem, head_us(), never);
    const auto placement = exec::place_line(problem);
    return placement ? placement->us : never;
  }
  // Each linear as the solver cuts it, of these cuts or of all.
  double by_tensor(index tokens, std::array<exec::Cut, 4>* cuts = nullptr) const {
    double us = head_us();
    for (std::size_t i = 0; i < 4; ++i) {
      const auto split = exec::split_linear(whole(i, tokens), devices(i));
      us += layers * (others_us(i, tokens) + (split ? split->us : never));
      if (cuts != nullptr && split) (*cuts)[i] = split->cut;
    }
    return us;
  }
  // The NPU has the first of its graphs that fits, the GPU the rest of the tokens, of all linears.
  double by_sequence(index tokens, index npu_tokens) const {
    double us = head_us();
    for (std::size_t i = 0; i < 4; ++i)
      us += layers *
            (others_us(i, tokens) +
             exec::timed(whole(i, tokens), devices(i),
                         {.cut = exec::Cut::sequence, .npu_outputs = linears[i].outputs, .npu_passes = {npu_tokens}})
                 .us);
    return us;
  }
  // A token that is generated, where reading the weights is all there is.
  double by_reading(double bytes_a_us) const {
    double weights = static_cast<double>(vocab) * dim;
    for (const Linear& each : linears)
      weights += static_cast<double>(layers) * static_cast<double>(each.outputs * each.inputs);
    return weights * bytes_a_weight / bytes_a_us;
  }
  const Phone& phone() const { return phone_; }
  const std::vector<index>& graphs() const { return graphs_; }

 private:
  static constexpr double never = 1e300;

  static void add(exec::PlacementProblem& problem, double gpu_us, double npu_us) {
    problem.us.insert(problem.us.end(), {gpu_us, npu_us});
    problem.bytes.push_back(0);
  }
  static exec::LinearShape whole(std::size_t i, index tokens) {
    return {linears[i].outputs, linears[i].inputs, tokens};
  }
  exec::LinearTime gpu(std::size_t i) const { return gpu_time(phone_, linears[i].outputs, linears[i].inputs); }
  exec::LinearTime npu(std::size_t i) const { return npu_time(linears[i].outputs, linears[i].inputs, order_); }
  exec::SplitDevices devices(std::size_t i) const {
    return {.gpu = gpu(i),
            .npu = npu(i),
            .npu_graphs = graphs_,
            .sync_us = phone_.to_npu_us(fast_) + phone_.to_gpu_us(fast_),
            .weight_bytes = bytes_a_weight,
            .shared_bytes_a_us = phone_.shared_bytes_a_us};
  }
  // What stands before linear i: kernels, f16 elements that they read and write, and attention's operations.
  double others_us(std::size_t i, index tokens) const {
    constexpr double kernels[] = {1, 3, 2, 1};
    constexpr double elements[] = {2.0 * dim, 2.0 * (dim + 2 * kv_dim), 5.0 * dim, 3.0 * hidden};
    const auto rows = static_cast<double>(tokens);
    double us = kernels[i] * phone_.submit_us + rows * elements[i] * 2 / phone_.alone_bytes_a_us;
    if (i == 1) us += 4 * rows * rows * dim / phone_.gpu_flops_a_us;  // blind to the mask
    return us;
  }
  // One row's.
  double head_us() const { return static_cast<double>(vocab) * dim * bytes_a_weight / phone_.alone_bytes_a_us; }

  Phone phone_;
  bool fast_;
  Order order_;
  std::vector<index> graphs_;
};

double tokens_a_second(index tokens, double us) { return static_cast<double>(tokens) / us * 1e6; }

std::string prefill() {
  const Llama8B fast(true), slow(false);
  Comparison table;
  table.row("GPU only", tokens_a_second(256, fast.gpu_only(256)), 0, "as a picture only (figure 13)", 1);
  table.row("NPU only", tokens_a_second(256, fast.npu_only(256)), 0, "as a picture only (figure 13)", 1);
  const auto layer = [](const Llama8B& model, index tokens) {
    return tokens_a_second(tokens, model.by_layer(tokens, {std::max<index>(tokens, 128)}));
  };
  const auto tensor = [](const Llama8B& model, index tokens) {
    return tokens_a_second(tokens, model.by_tensor(tokens));
  };
  table.row("layers placed, ordinary sync", layer(slow, 256), 0, "as a picture only (figure 16)", 1);
  table.row("layers placed, fast sync", layer(fast, 256), 0, "as a picture only (figures 13 and 16)", 1);
  table.row("tensors cut, ordinary sync", tensor(slow, 256), 196.44, "section 5.5", 1);
  table.row("tensors cut, fast sync", tensor(fast, 256), 236.92, "section 5.5; section 5.3.1 has 247.9", 1);
  double gain = 0, layer_sync = 0, tensor_sync = 0;
  for (const index tokens : {64, 256, 1024}) {
    gain += tensor(fast, tokens) / layer(fast, tokens) / 3;
    layer_sync += layer(fast, tokens) / layer(slow, tokens) / 3;
    tensor_sync += tensor(fast, tokens) / tensor(slow, tokens) / 3;
  }
  table.row("tensors over layers, mean of 64, 256, 1024", gain, 1.302, "section 5.3.1");
  table.row("fast over ordinary sync, layers, the same mean", layer_sync, 1.158, "section 5.5");
  table.row("fast over ordinary sync, tensors, the same mean", tensor_sync, 1.243, "section 5.5");
  std::array<exec::Cut, 4> cuts{};
  fast.by_tensor(256, &cuts);
  const auto cut = [&](std::size_t i) { return std::string(name(cuts[i])); };
  return "### Prompts of 256 tokens, tokens a second\n\n" + table.text() + "\nThe solver's cuts at 256: qkv " + cut(0) +
         ", o " + cut(1) + ", gate and up " + cut(2) + ", down " + cut(3) +
         ".\nTable 3 of the paper has for o: NPU only, for down: rows, 2 : 3.\n";
}

std::string ablation() {
  const index tokens = 320;
  const Llama8B slow(false), given(false, Order::given), fast(true);
  const double gpu = slow.gpu_only(tokens);
  const double naive = given.npu_only(tokens) + slow.phone().build_us(tokens);
  const double cut = given.by_sequence(tokens, 256), order = slow.by_sequence(tokens, 256);
  const double rows = slow.by_tensor(tokens), sync = fast.by_tensor(tokens);
  Comparison table;
  table.range("naive NPU, times the GPU's latency", naive / gpu, 1.625, 1 / (1 - 0.625),
              "section 5.6: \"62.5% slower\", read both ways");
  table.row("+ sequence cut (256 on the NPU, 64 on the GPU), speedup", naive / cut, 2.05, "section 5.6");
  table.row("+ tensors exchanged, speedup", cut / order, 1.79, "section 5.6");
  table.row("+ rows and hybrid cuts, speedup", order / rows, 1.20, "section 5.6");
  table.row("+ fast sync, speedup", rows / sync, 1.19, "section 5.6");
  constexpr double product = 2.05 * 1.79 * 1.20 * 1.19;
  table.range("all of it over the GPU, speedup", gpu / sync, product * (1 - 0.625), product / 1.625,
              "the product of these, read both ways");
  return "### The ablation, at 320 tokens\n\n" + table.text();
}

std::string unaligned() {
  const Llama8B fast(true);
  const auto online = [&](index tokens) { return fast.by_layer(tokens, {tokens}) + fast.phone().build_us(tokens); };
  const auto padded = [&](index tokens) {
    return fast.by_layer(tokens, {*std::ranges::lower_bound(fast.graphs(), tokens)});
  };
  const auto pipe = [&](index tokens) { return fast.by_layer(tokens, exec::several_passes(tokens, fast.graphs())); };
  Comparison table;
  const double tensor = fast.by_tensor(525);
  table.row("online-prepare at 525, times the latency of tensors cut", online(525) / tensor, 2.24, "section 5.3.2");
  table.row("padding at 525", padded(525) / tensor, 2.21, "section 5.3.2");
  table.row("pipe at 525", pipe(525) / tensor, 1.35, "section 5.3.2");
  table.row("preparation's share of online-prepare at 135", fast.phone().build_us(135) / online(135), 0.346,
            "section 5.3.2", 3);
  double over = 0;
  for (const index tokens : {135, 265, 525}) over += padded(tokens) / fast.by_tensor(tokens) / 3;
  table.row("padding just above a standard size, mean of 135, 265, 525", over, 1.91, "section 5.3.2");
  Table times({"tokens", "online-prepare, ms", "padding, ms", "pipe, ms", "tensors cut, ms"});
  for (const index tokens : {135, 265, 300, 400, 525, 600, 800, 1000})
    times.row({std::to_string(tokens), digits(online(tokens) / 1e3, 0), digits(padded(tokens) / 1e3, 0),
               digits(pipe(tokens) / 1e3, 0), digits(fast.by_tensor(tokens) / 1e3, 0)});
  return "### Lengths that fit no graph\n\n" + table.text() +
         "\nThe latencies themselves, which the paper has as a picture only (figure 14):\n\n" + times.text();
}

std::string decode() {
  const Llama8B fast(true, Order::exchanged, {1}), slow(false, Order::exchanged, {1});
  const double gpu_table = fast.gpu_only(1), tensor_table = fast.by_tensor(1);
  const double gpu_reading = fast.by_reading(fast.phone().alone_bytes_a_us);
  const double both_reading = fast.by_reading(fast.phone().shared_bytes_a_us);
  Comparison table;
  table.row("tensors cut, tokens a second, by table 3", 1e6 / tensor_table, 14.01, "section 5.4");
  table.row("tensors cut, tokens a second, by bandwidth alone", 1e6 / both_reading, 14.01, "section 5.4");
  table.row("tensors over layers, by table 3", gpu_table / tensor_table, 1.22, "section 5.4");
  table.row("tensors over layers, by bandwidth alone", gpu_reading / both_reading, 1.22, "section 5.4");
  table.row("fast over ordinary sync, tensors, by table 3", slow.by_tensor(1) / tensor_table, 4.01, "section 5.5");
  return "### Decoding\n\n" + table.text();
}

}  // namespace

std::string heterollm_page() {
  return "## HeteroLLM: Llama-8B on GPU and NPU\n\n" + prefill() + "\n" + ablation() + "\n" + unaligned() + "\n" +
         decode();
}

}  // namespace inlay::tools
