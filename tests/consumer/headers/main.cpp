// An engine that includes the kernels and brings its own threads; nothing of Inlay is linked. Its units are built for
// different machines, and each computes on those that it is built for: this one, and `baseline`, on the oldest.
#include <cmath>
#include <cstdio>
#include <string_view>
#include <thread>
#include <vector>

#include <inlay/cpu_inline.hpp>

#include "every.hpp"

namespace {

struct Pool {
  template <class F> void run(inlay::index tasks, F f) {
    std::vector<std::thread> threads;
    for (inlay::index i = 0; i < tasks; ++i) threads.emplace_back([=] { f(i); });
    for (auto& thread : threads) thread.join();
    used = true;
  }
  bool used = false;
};

std::vector<float> waves(std::size_t count, float step) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = std::cos(step * static_cast<float>(i));
  return values;
}

// What two operators of the unit compute, and what it says of a struct that check refuses.
struct Results {
  std::vector<float> normalised = std::vector<float>(5 * 70), attended = std::vector<float>(7 * 4 * 33);
  bool good = true;

  template <class... Ops> explicit Results(const Every<Ops...>& unit) {
    std::vector<float> x = waves(normalised.size(), 1), weight(70, 2);
    inlay::RmsNorm<Host> norm{
        .x = {x.data(), {5, 70}}, .weight = {weight.data(), {70}}, .y = {normalised.data(), {5, 70}}};
    good = unit(norm).ok();
    norm.eps = -1;
    good = good && unit(norm).message() == "eps is -1.000000; it must be zero or more, and finite";
    norm.eps = 1e-5f, norm.weight.extents[0] = 69;
    good = good && unit(norm).message() == "weight has extent 69 in dimension 0; it must be 70";

    std::vector<float> q = waves(7 * 4 * 33, 0.1f), k = waves(9 * 2 * 33, 0.2f), v = waves(9 * 2 * 33, 0.3f);
    std::vector<std::byte> scratch(1 << 22);
    void* begin = scratch.data();
    std::size_t space = scratch.size();
    begin = std::align(inlay::workspace_alignment, 1 << 21, begin, space);
    good = good && unit(inlay::FlashAttention<Host>{.q = {q.data(), {1, 7, 4, 33}},
                                                    .k = {k.data(), {1, 9, 2, 33}},
                                                    .v = {v.data(), {1, 9, 2, 33}},
                                                    .out = {attended.data(), {1, 7, 4, 33}}},
                        {static_cast<std::byte*>(begin), 1 << 21})
                       .ok();
  }
  bool agrees(const Results& other) const {
    bool same = good && other.good;
    for (std::size_t i = 0; i < normalised.size(); ++i)
      same = same && std::abs(normalised[i] - other.normalised[i]) < 1e-5f;
    for (std::size_t i = 0; i < attended.size(); ++i) same = same && std::abs(attended[i] - other.attended[i]) < 1e-5f;
    return same;
  }
};

bool use_threads() {
  constexpr inlay::index rows = 4096;  // so many are worth handing out
  std::vector<float> x = waves(rows * 64, 1), weight(64, 2.0f), y(x.size());
  const inlay::RmsNorm<inlay::Host> op{
      .x = {x.data(), {rows, 64}}, .weight = {weight.data(), {64}}, .y = {y.data(), {rows, 64}}};
  Pool pool;
  const inlay::CpuInline cpu(inlay::from_pool(pool, 3));
  if (auto status = inlay::run(cpu, op); !status.ok()) return std::printf("%s\n", status.message().data()), false;
  if (!pool.used) return std::printf("the pool was not used\n"), false;
  double sum = 0;
  for (std::size_t i = 0; i < 64; ++i) sum += static_cast<double>(y[i] * y[i]) / 4;
  if (std::abs(sum / 64 - 1) > 1e-4) return std::printf("row 0 has mean square %f\n", sum / 64), false;
  return inlay::CpuInline(inlay::from_pool(pool, 0)).parallel().width == 1;
}

}  // namespace

// With an argument: the baseline alone, on a machine that lacks what this one has.
int main(int count, char**) {
  if (!use_threads()) return 1;
  const Results expected(baseline);
  if (!expected.good) return std::printf("the baseline fails\n"), 1;
  if (count > 1) return 0;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && !Results(with_avx2).agrees(expected))
    return std::printf("avx2 differs\n"), 1;
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
      !Results(with_avx512).agrees(expected))
    return std::printf("avx512 differs\n"), 1;
#endif
#if defined(WITH_NATIVE)
  if (!Results(native).agrees(expected)) return std::printf("native differs\n"), 1;
#endif
  return 0;
}
