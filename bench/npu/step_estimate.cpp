// What the estimates of a model's step cost the host: every operator of a step of Llama 8B, f16 and four-bit weights,
// estimated on each description for the first time, and again. `disturbed`: others had the processors
// (measure/processors.hpp); what the estimate took of them does not depend on that so much.
//   INLAY_BENCH_SHORT=1: one description, one token; INLAY_BENCH_EACH=1: a line for each operator
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/npu.hpp>

#include "measure/processors.hpp"
#include "measure/timing.hpp"
#include "shapes/embedding.hpp"
#include "shapes/flash_attention.hpp"
#include "shapes/incre_flash_attention.hpp"
#include "shapes/kv_cache.hpp"
#include "shapes/linear.hpp"
#include "shapes/linear_w4a16.hpp"
#include "shapes/rms_norm.hpp"
#include "shapes/rope.hpp"
#include "shapes/sampling.hpp"
#include "shapes/swiglu.hpp"

namespace inlay::bench {
namespace {

constexpr index dim = 4096, hidden = 14336, heads = 32, kv_heads = 8, head = 128, vocab = 128256;

class Step {
 public:
  Step(const Npu& npu, bool four_bits, index tokens, index depth)
      : npu_(npu), four_bits_(four_bits), tokens_(tokens), depth_(depth) {}

  void estimate_all() {
    const DType f16 = DType::f16;
    const index keys = depth_ + tokens_;
    AbsentTensors tensors;
    const auto estimate = [&](const auto& shape) { estimate_op(shape.make(tensors)); };
    const auto linear = [&](index m, index n, index k) {
      if (four_bits_)
        estimate(LinearW4a16Shape{m, n, k});
      else
        estimate(LinearShape{m, n, k});
    };
    estimate(EmbeddingShape{tokens_, vocab, dim, f16, f16});
    estimate(RmsNormShape{.rows = tokens_, .dim = dim, .weight = f16});
    linear(tokens_, dim + 2 * kv_heads * head, dim);
    linear(tokens_, dim, dim);
    linear(tokens_, 2 * hidden, dim);
    linear(tokens_, dim, hidden);
    for (const index rotated : {heads, kv_heads})
      estimate(RopeShape{.tokens = tokens_, .heads = rotated, .dim = head, .in_place = true, .cached = keys});
    estimate(ReshapeAndCacheShape{tokens_, f16, {.blocks = keys / 16 + 1}});
    if (tokens_ == 1)
      estimate(IncreFlashAttentionShape{1, heads, kv_heads, head, keys});
    else
      estimate(FlashAttentionShape{1, tokens_, keys, heads, kv_heads, head});
    estimate(SwigluShape{tokens_, hidden});
    linear(1, vocab, dim);
    estimate(SamplingShape{1, vocab});
  }
  bool good() const { return good_; }

 private:
  template <class Op> void estimate_op(const Op& op) {
    Expected<NpuEstimate> found = failure(invalid(""));
    const double seconds = measure::seconds([&] { found = inlay::estimate(npu_, op); });
    good_ = good_ && found.has_value();
    if (!found)
      std::printf("%s: %s\n", std::string(Op::name).c_str(), std::string(found.error().message()).c_str());
    else if (seconds > 1e-4 && std::getenv("INLAY_BENCH_EACH") != nullptr)
      std::printf("    %-24s %10.0f cycles, %9.3f ms\n", std::string(Op::name).c_str(), found->cycles, seconds * 1e3);
  }

  const Npu& npu_;
  bool four_bits_;
  index tokens_, depth_;
  bool good_ = true;
};

}  // namespace
}  // namespace inlay::bench

int main(int argc, char** argv) {
  using namespace inlay;
  const bool short_run = measure::short_run();
  for (const bool four_bits : {false, true})
    for (const std::string_view device : npu_devices())
      for (const auto& [tokens, depth] : {std::pair{inlay::index{1}, inlay::index{4096}}, {512, 0}}) {
        if (argc > 1 && argv[1] != std::string_view(four_bits ? "w4a16" : "f16")) continue;
        if (argc > 2 && argv[2] != device) continue;
        const auto npu = Npu::make({.device = std::string(device)});
        if (!npu) return 1;
        bench::Step step(*npu, four_bits, tokens, depth);
        measure::Processors processors;
        processors.begin();
        const std::clock_t used = std::clock();
        const double cold = measure::seconds([&] { step.estimate_all(); });
        const double processor = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
        processors.end();
        std::vector<double> again;
        for (int i = 0; i < 9; ++i) again.push_back(measure::seconds([&] { step.estimate_all(); }));
        if (!step.good()) return 1;
        std::printf("%-5s %-18s %3lld tokens behind %4lld: %7.3f s, %7.3f s of processors, again %6.3f ms%s\n",
                    four_bits ? "w4a16" : "f16", std::string(device).c_str(), static_cast<long long>(tokens),
                    static_cast<long long>(depth), cold, processor, measure::median(again) * 1e3,
                    processors.disturbed(default_width()) ? " disturbed" : "");
        std::fflush(stdout);
        if (short_run) return 0;
      }
  return 0;
}
