// An engine that includes the kernels and brings its own threads; nothing of Inlay is linked.
#include <cmath>
#include <cstdio>
#include <thread>
#include <vector>

#include <inlay/cpu_inline.hpp>

bool other_unit_agrees(const inlay::RmsNorm<inlay::Host>& op, std::vector<float>& y);

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

}  // namespace

int main() {
  constexpr inlay::index rows = 4096;  // so many are worth handing out
  std::vector<float> x(rows * 64), weight(64, 2.0f), y(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::cos(static_cast<float>(i));
  const inlay::RmsNorm<inlay::Host> op{
      .x = {x.data(), {rows, 64}}, .weight = {weight.data(), {64}}, .y = {y.data(), {rows, 64}}};

  Pool pool;
  const inlay::CpuInline cpu(inlay::from_pool(pool, 3));
  if (auto status = inlay::run(cpu, op); !status.ok()) return std::printf("%s\n", status.message().data()), 1;
  if (!pool.used) return std::printf("the pool was not used\n"), 1;
  double sum = 0;
  for (int i = 0; i < 64; ++i) sum += y[i] * y[i] / 4.0;
  if (std::abs(sum / 64 - 1) > 1e-4) return std::printf("row 0 has mean square %f\n", sum / 64), 1;
  if (inlay::CpuInline(inlay::from_pool(pool, 0)).parallel().width != 1) return std::printf("no width is kept\n"), 1;
  return other_unit_agrees(op, y) ? 0 : (std::printf("the units disagree\n"), 1);
}
