// vLLM-Ascend's captured plans: how many a device holds, which sizes they have, and what a mode is worth where the host
// is slower than the device.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <inlay/exec/buckets.hpp>

#include "tools/simulate/report.hpp"

namespace inlay::tools {
namespace {

std::string limits() {
  Table table({"layers", "no communication", "1 domain", "2 domains", "1 domain, AIV"});
  for (const index layers : {24, 28, 36, 48, 64, 94}) {
    const auto buckets = [&](index domains, bool unfolded) {
      return std::to_string(exec::ascend_max_buckets({.layers = layers, .domains = domains, .unfolded = unfolded}));
    };
    table.row({std::to_string(layers), buckets(0, false), buckets(1, false), buckets(2, false), buckets(1, true)});
  }
  return "### How many plans\n\nThe formula is vLLM-Ascend's (vllm_ascend/utils.py, update_aclgraph_sizes), so there "
         "is nothing to predict: a "
         "test holds\nit to the example in its source's comment (48 layers, 1920 streams, ranks of tensors: 12) and "
         "the "
         "sizes that issue 1168\nreports (512, 408, 304, 192, 88, 1).\n\n" +
         table.text();
}

// Steps of n tokens are as frequent as 1 / n: small batches are common, large ones are not.
std::vector<exec::LengthCount> harmonic(index largest) {
  std::vector<exec::LengthCount> lengths;
  for (index length = 1; length <= largest; ++length) lengths.push_back({length, 720720 / length});
  return lengths;
}

std::string sizes() {
  const auto lengths = harmonic(512);
  Table table({"layers, domains", "buckets", "padding, Ascend's", "padding, least", "the least's sizes"});
  struct Case {
    index layers, domains;
  };
  for (const Case& each : {Case{24, 0}, Case{64, 0}, Case{64, 1}, Case{64, 2}}) {
    const index count = exec::ascend_max_buckets({.layers = each.layers, .domains = each.domains});
    const auto theirs = exec::sampled_buckets(exec::default_buckets(), count);
    const auto best = exec::best_buckets(lengths, count, 512);
    std::string list;
    for (const index size : best) list += (list.empty() ? "" : " ") + std::to_string(size);
    const auto share = [&](const std::vector<index>& buckets) {
      return digits(100 * exec::use_of(buckets, lengths).padded_share(), 1) + "%";
    };
    table.row({std::to_string(each.layers) + ", " + std::to_string(each.domains), std::to_string(theirs.size()),
               share(theirs), share(best), best.size() > 12 ? std::to_string(best.size()) + " of them" : list});
  }
  return "### Which sizes\n\nOf steps of 1 to 512 tokens, those of n as frequent as 1 / n; what is padded of what "
         "runs.\n"
         "None runs eagerly.\n\n" +
         table.text();
}

// Issue 7723: a token takes the longer of what the host issues and what the device computes. The host's part is what
// it took without plans at the shortest text; the device's a line through the two shortest with plans.
std::string modes() {
  struct Text {
    const char* name;
    double k, eager_ms, full_ms;
  };
  constexpr std::array<Text, 4> texts{
      {{"256K", 256, 171, 55.63}, {"512K", 512, 165, 125}, {"768K", 768, 165, 191}, {"1M", 1024, 250, 256}}};
  constexpr double host_ms = texts[0].eager_ms;
  constexpr double slope = (texts[1].full_ms - texts[0].full_ms) / (texts[1].k - texts[0].k);
  Comparison table;
  for (const Text& each : texts) {
    const double device_ms = texts[0].full_ms + slope * (each.k - texts[0].k);
    const std::string where = "vllm-ascend issue 7723";
    const bool input_full = each.k <= 512, input_eager = each.k <= 256;
    table.row("eager, " + std::string(each.name) + " tokens, ms", std::max(host_ms, device_ms), each.eager_ms,
              input_eager ? where + ", an input" : where, 0);
    table.row("decode-only, " + std::string(each.name) + " tokens, ms", device_ms, each.full_ms,
              input_full ? where + ", an input" : where, 0);
  }
  // Issue 13021: about 20 us a layer between the pieces, on a 910B. The model has 62 layers.
  table.row("piecewise, 256K tokens, ms", texts[0].full_ms + 62 * 0.020, 0, "", 0);
  table.row("full, 256K tokens, ms", texts[0].full_ms, 0, "a step of one token is decode-only's", 0);
  return "### What a mode is worth\n\nA token of Qwen3-Coder-480B, batch 1. Piecewise adds the 20 us that issue 13021 "
         "saw between pieces, for each of 62 "
         "layers.\n\n" +
         table.text();
}

}  // namespace

std::string ascend_page() { return "## vLLM-Ascend: captured plans\n\n" + limits() + "\n" + sizes() + "\n" + modes(); }

}  // namespace inlay::tools
