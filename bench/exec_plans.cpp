// What an operator costs beside its kernel: run by a chain as it comes, and replayed from a tape. Operators of a
// decoder's layer over tensors of one element, 200 of a kind in a pass; medians of passes by turns, ns an operator.
//
//   idle   a backend that computes nothing: the cost of the host alone
//   cpu    the CPU's kernels, on one thread
//
// INLAY_BENCH_SHORT=1: few passes.
#include <array>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include <inlay/exec/plan/recorder.hpp>
#include <inlay/ops/kv_cache.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/rms_norm.hpp>
#include <inlay/ops/rope.hpp>
#include <inlay/ops/swiglu.hpp>

#include "measure/timing.hpp"

namespace inlay {
namespace {

struct Idle {
  using Space = Host;
  [[maybe_unused]] static constexpr std::string_view name = "idle";
};
template <class Op> Status supports(Idle&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(Idle&, const Op&) { return 0; }
template <class Op> Status compute(Idle&, const Op&, Workspace) { return {}; }

}  // namespace
template <> inline constexpr bool exec::declines_nothing<Idle> = true;

namespace {

using measure::median, measure::seconds;

constexpr int of_a_pass = 200;

struct Cost {
  double eager, replay;
};

// `brought`: lists that each pass brings.
template <class Backend, class Op> Cost cost(Backend backend, const Op& op, std::span<const std::byte> brought) {
  exec::Chain chain{backend};
  exec::Recorder record(chain, brought);
  for (int i = 0; i < of_a_pass; ++i) record(op);
  const auto tape = std::move(record).take();
  const int passes = measure::short_run() ? 10 : 2000;
  std::vector<double> eager, replay;
  Status status;
  for (int pass = 0; pass < passes && tape && status.ok(); ++pass) {
    eager.push_back(seconds([&] {
      for (int i = 0; i < of_a_pass; ++i) chain(op);
    }));
    status = chain.take_status();
    replay.push_back(seconds([&] {
      if (status.ok()) status = tape->replay();
    }));
  }
  if (!tape || !status.ok()) {
    std::fprintf(stderr, "%s: %s\n", std::string(Op::name).c_str(),
                 std::string((tape ? status : tape.error()).message()).c_str());
    return {};
  }
  return {1e9 * median(eager) / of_a_pass, 1e9 * median(replay) / of_a_pass};
}

// Returns whether both ran.
template <class Op> bool compare(const Op& op, std::span<const std::byte> brought = {}) {
  const Cost idle = cost(Idle{}, op, brought), cpu = cost(Cpu(serial()), op, brought);
  std::printf("%-18s idle %6.1f eager %5.1f replay    cpu %6.1f eager %6.1f replay\n", std::string(Op::name).c_str(),
              idle.eager, idle.replay, cpu.eager, cpu.replay);
  return idle.eager > 0 && cpu.eager > 0;
}

bool compare_all() {
  std::array<float, 8> a{1, 2}, b{3, 4}, y{};
  std::vector<float> cache(2 * 16), table{1, 0};
  struct {
    std::int64_t slot = 3;
    std::int32_t length = 4, block = 0;
  } brought;
  const auto lists = std::as_bytes(std::span(&brought, 1));
  const View<2> row(a.data(), {1, 1}), other(b.data(), {1, 1}), out(y.data(), {1, 1});
  const View<1> weight(b.data() + 1, {1});
  const View<3> head(a.data(), {1, 1, 1}), pair(a.data(), {1, 1, 2}), head_out(y.data(), {1, 1, 1});
  const View<2> cos(table.data(), {1, 1}), sin(table.data() + 1, {1, 1});
  const View<4> keys(cache.data(), {1, 16, 1, 1}), values(cache.data() + 16, {1, 16, 1, 1});
  bool all = true;
  all &= compare(RmsNorm<Host>{.x = row, .weight = weight, .residual = out, .y = other, .eps = 1e-5f});
  all &= compare(Linear<Host>{.x = row, .weight_rows = other, .y = out});
  all &= compare(Rope<Host>{.x = pair, .cos = cos, .sin = sin, .y = pair});
  all &= compare(Swiglu<Host>{.gate = row, .up = other, .y = row});
  all &= compare(ReshapeAndCache<Host>{.k = head,
                                       .v = head,
                                       .k_cache = flat_cache(keys),
                                       .v_cache = flat_cache(values),
                                       .slot_mapping = {&brought.slot, {1}}},
                 lists);
  all &= compare(PagedAttention<Host>{.q = head,
                                      .k = flat_cache(keys),
                                      .v = flat_cache(values),
                                      .block_table = {&brought.block, {1, 1}},
                                      .kv_lens = {&brought.length, {1}},
                                      .out = head_out},
                 lists);
  return all;
}

}  // namespace
}  // namespace inlay

int main() { return inlay::compare_all() ? 0 : 1; }
