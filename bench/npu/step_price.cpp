// What the prices of a model's step cost the host: every operator of a step of Llama 8B, f16 and four-bit weights,
// priced on each description for the first time, and again. `disturbed`: others had the processors
// (measure/processors.hpp); what the price took of them does not depend on that so much.
//   INLAY_BENCH_SHORT=1: one description, one token; INLAY_BENCH_EACH=1: a line for each operator
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/npu.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/flash_attention.hpp>
#include <inlay/ops/incre_flash_attention.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/sampling.hpp>
#include <inlay/ops/swiglu.hpp>

#include "measure/processors.hpp"
#include "measure/timing.hpp"

namespace inlay::bench {
namespace {

// Tensors with addresses and nothing behind them.
class Tensors {
 public:
  template <int N> ConstView<N> in(DType type, std::array<index, N> extents) { return out<N>(type, extents); }
  template <int N> View<N> out(DType type, std::array<index, N> extents) {
    View<N> view(reinterpret_cast<void*>(next_), type, extents);
    next_ += (static_cast<std::uintptr_t>(byte_size(type, view.size())) / 4096 + 2) * 4096;
    return view;
  }

 private:
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

constexpr index dim = 4096, hidden = 14336, heads = 32, kv_heads = 8, head = 128, vocab = 128256, group = 128;

class Step {
 public:
  Step(const Npu& npu, bool four_bits, index tokens, index depth)
      : npu_(npu), four_bits_(four_bits), tokens_(tokens), depth_(depth) {
    for (index t = 0; t < tokens; ++t) {
      ids_.push_back(static_cast<std::int32_t>(t * 7919 % vocab));
      positions_.push_back(static_cast<std::int32_t>(depth + t));
      slots_.push_back(depth + t);
    }
  }

  void price_all() {
    const DType f16 = DType::f16;
    Tensors t;
    const auto x = t.in<2>(f16, {tokens_, dim}), gate = t.in<2>(f16, {tokens_, hidden});
    const auto q = t.out<3>(f16, {tokens_, heads, head}), k = t.out<3>(f16, {tokens_, kv_heads, head});
    const auto v = t.in<3>(f16, {tokens_, kv_heads, head});
    const index keys = depth_ + tokens_;
    price(Embedding<Host>{.table = t.in<2>(f16, {vocab, dim}),
                          .ids = ConstView<1>(ids_.data(), {tokens_}),
                          .y = t.out<2>(f16, {tokens_, dim})});
    price(RmsNorm<Host>{.x = x, .weight = t.in<1>(f16, {dim}), .y = t.out<2>(f16, {tokens_, dim})});
    for (const auto& [n, depth] :
         {std::pair{dim + 2 * kv_heads * head, dim}, {dim, dim}, {2 * hidden, dim}, {dim, hidden}})
      linears(t, tokens_, n, depth);
    for (const View<3>& rows : {q, k})
      price(Rope<Host>{.x = rows,
                       .cos = t.in<2>(DType::f32, {keys, head / 2}),
                       .sin = t.in<2>(DType::f32, {keys, head / 2}),
                       .positions = ConstView<1>(positions_.data(), {tokens_}),
                       .y = rows});
    price(ReshapeAndCache<Host>{.k = k,
                                .v = v,
                                .k_cache = flat_cache(t.out<4>(f16, {keys / 16 + 1, 16, kv_heads, head})),
                                .v_cache = flat_cache(t.out<4>(f16, {keys / 16 + 1, 16, kv_heads, head})),
                                .slot_mapping = ConstView<1>(slots_.data(), {tokens_})});
    const auto cache = [&] { return t.in<4>(f16, {1, keys, kv_heads, head}); };
    if (tokens_ == 1)
      price(IncreFlashAttention<Host>{.q = t.in<4>(f16, {1, 1, heads, head}),
                                      .k = cache(),
                                      .v = cache(),
                                      .out = t.out<4>(f16, {1, 1, heads, head})});
    else
      price(FlashAttention<Host>{.q = t.in<4>(f16, {1, tokens_, heads, head}),
                                 .k = cache(),
                                 .v = cache(),
                                 .out = t.out<4>(f16, {1, tokens_, heads, head}),
                                 .causal = true});
    price(Swiglu<Host>{.gate = gate, .up = t.in<2>(f16, {tokens_, hidden}), .y = t.out<2>(f16, {tokens_, hidden})});
    linears(t, 1, vocab, dim);
    price(Sampling<Host>{
        .logits = t.in<2>(DType::f32, {1, vocab}), .tokens = t.out<1>(DType::i32, {1}), .temperature = 0});
  }
  bool good() const { return good_; }

 private:
  void linears(Tensors& t, index m, index n, index k) {
    if (!four_bits_)
      return price(Linear<Host>{.x = t.in<2>(DType::f16, {m, k}),
                                .weight = t.in<3>(DType::f16, linear_packed_extents(n, k, DType::f16)),
                                .y = t.out<2>(DType::f16, {m, n})});
    price(LinearW4a16<Host>{.x = t.in<2>(DType::f16, {m, k}),
                            .codes = t.in<3>(DType::u8, {w4_panels(n), w4_steps(k, 4), 4 * w4_panel}),
                            .scales = t.in<3>(DType::f16, {w4_panels(n), k / group, w4_panel}),
                            .zeros = t.in<3>(DType::u8, {w4_panels(n), k / group, w4_panel}),
                            .y = t.out<2>(DType::f16, {m, n}),
                            .group = group});
  }
  template <class Op> void price(const Op& op) {
    Expected<NpuPrice> found = failure(invalid(""));
    const double seconds = measure::seconds([&] { found = inlay::price(npu_, op); });
    good_ = good_ && found.has_value();
    if (!found)
      std::printf("%s: %s\n", std::string(Op::name).c_str(), std::string(found.error().message()).c_str());
    else if (seconds > 1e-4 && std::getenv("INLAY_BENCH_EACH") != nullptr)
      std::printf("    %-24s %10.0f cycles, %9.3f ms\n", std::string(Op::name).c_str(), found->cycles, seconds * 1e3);
  }

  const Npu& npu_;
  bool four_bits_;
  index tokens_, depth_;
  std::vector<std::int32_t> ids_, positions_;
  std::vector<std::int64_t> slots_;
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
        const double cold = measure::seconds([&] { step.price_all(); });
        const double processor = static_cast<double>(std::clock() - used) / CLOCKS_PER_SEC;
        processors.end();
        std::vector<double> again;
        for (int i = 0; i < 9; ++i) again.push_back(measure::seconds([&] { step.price_all(); }));
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
