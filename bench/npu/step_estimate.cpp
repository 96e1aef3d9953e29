// What the estimates of a model's steps cost the host: every operator of a step of Llama 8B that decodes a token behind
// 4096 and of one of a prompt of 256, f16 and four-bit weights, on each description. For the first time, asked for by
// one thread and by all of them, and again. `disturbed`: others had the processors (measure/processors.hpp); what the
// estimates took of them does not depend on that so much.
//   bench_npu_step_estimate [f16 | w4a16 [DEVICE]]
//   INLAY_BENCH_SHORT=1: one description, f16; INLAY_BENCH_EACH=1: a line for each operator
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <optional>
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

class Steps {
 public:
  explicit Steps(bool four_bits) {
    add_step(four_bits, 256, 0);
    add_step(four_bits, 1, 4096);
  }

  // False: one of them has no estimate.
  bool estimate_all(const NpuEstimator& estimator, const Parallel& parallel) const {
    std::atomic<bool> good = true;
    parallel(static_cast<index>(estimates_.size()), [&](index i) {
      if (!estimates_[static_cast<std::size_t>(i)](estimator)) good = false;
    });
    return good;
  }

 private:
  // The largest first: no thread is to begin one of them when the others have ended.
  void add_step(bool four_bits, index tokens, index depth) {
    const DType f16 = DType::f16;
    const index keys = depth + tokens;
    const auto linear = [&](index m, index n, index k) {
      if (four_bits)
        add(LinearW4a16Shape{m, n, k});
      else
        add(LinearShape{m, n, k});
    };
    linear(tokens, 2 * hidden, dim);
    linear(1, vocab, dim);
    linear(tokens, dim, hidden);
    linear(tokens, dim + 2 * kv_heads * head, dim);
    linear(tokens, dim, dim);
    if (tokens == 1)
      add(IncreFlashAttentionShape{1, heads, kv_heads, head, keys});
    else
      add(FlashAttentionShape{1, tokens, keys, heads, kv_heads, head});
    add(EmbeddingShape{tokens, vocab, dim, f16, f16});
    add(RmsNormShape{.rows = tokens, .dim = dim, .weight = f16});
    for (const index rotated : {heads, kv_heads})
      add(RopeShape{.tokens = tokens, .heads = rotated, .dim = head, .in_place = true, .cached = keys});
    add(ReshapeAndCacheShape{tokens, f16, {.blocks = keys / 16 + 1}});
    add(SwigluShape{tokens, hidden});
    add(SamplingShape{1, vocab});
  }

  template <class Shape> void add(const Shape& shape) {
    const auto op = shape.make(tensors_);
    estimates_.push_back([op](const NpuEstimator& estimator) {
      Expected<NpuEstimate> found = failure(invalid(""));
      const double seconds = measure::seconds([&] { found = inlay::estimate(estimator, op); });
      if (!found)
        std::printf("%s: %s\n", std::string(op.name).c_str(), std::string(found.error().message()).c_str());
      else if (seconds > 1e-4 && std::getenv("INLAY_BENCH_EACH") != nullptr)
        std::printf("    %-24s %10.0f cycles, %9.3f ms\n", std::string(op.name).c_str(), found->cycles, seconds * 1e3);
      return found.has_value();
    });
  }

  AbsentTensors tensors_;
  std::vector<std::function<bool(const NpuEstimator&)>> estimates_;
};

// Seconds, and those of processors.
struct Cold {
  double seconds = 0, processors = 0;
};
std::optional<Cold> cold(const Steps& steps, const NpuEstimator& estimator, const Parallel& parallel) {
  Cold taken;
  bool good = true;
  const std::clock_t used = std::clock();
  taken.seconds = measure::seconds([&] { good = steps.estimate_all(estimator, parallel); });
  taken.processors = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
  if (!good) return std::nullopt;
  return taken;
}

}  // namespace
}  // namespace inlay::bench

int main(int argc, char** argv) {
  using namespace inlay;
  for (const bool four_bits : {false, true})
    for (const std::string_view device : npu_devices()) {
      if (argc > 1 && argv[1] != std::string_view(four_bits ? "w4a16" : "f16")) continue;
      if (argc > 2 && argv[2] != device) continue;
      const bench::Steps steps(four_bits);
      const auto alone = NpuEstimator::make({.device = std::string(device)});
      const auto together = NpuEstimator::make({.device = std::string(device)});
      if (!alone || !together) return 1;
      measure::Processors processors;
      processors.begin();
      const auto by_one = bench::cold(steps, *alone, serial()), by_all = bench::cold(steps, *together, threads());
      processors.end();
      if (!by_one || !by_all) return 1;
      std::vector<double> again;
      for (int i = 0; i < 9; ++i) again.push_back(measure::seconds([&] { steps.estimate_all(*alone, serial()); }));
      std::printf("%-5s %-18s one thread %7.3f s, %d threads %7.3f s (%7.3f s of processors), again %6.3f ms%s\n",
                  four_bits ? "w4a16" : "f16", std::string(device).c_str(), by_one->seconds,
                  static_cast<int>(default_width()), by_all->seconds, by_all->processors, measure::median(again) * 1e3,
                  processors.disturbed(default_width()) ? " disturbed" : "");
      std::fflush(stdout);
      if (measure::short_run()) return 0;
    }
  return 0;
}
