// An engine that links the installed library: the level is chosen at run time.
#include <cmath>
#include <cstdio>
#include <vector>

#include <inlay/inlay.hpp>

int run_tile_program();  // tile_program.cpp

int main() {
  std::vector<float> x(3 * 100), weight(100, 1.0f), y(x.size()), expected(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  inlay::RmsNorm<inlay::Host> op{.x = {x.data(), {3, 100}}, .weight = {weight.data(), {100}}, .y = {y.data(), {3, 100}}};

  inlay::Cpu cpu;
  if (auto status = inlay::run(cpu, op); !status.ok()) return std::printf("%s\n", status.message().data()), 1;
  op.y.data = expected.data();
  inlay::Reference reference;
  if (auto status = inlay::run(reference, op); !status.ok()) return std::printf("%s\n", status.message().data()), 1;
  for (std::size_t i = 0; i < y.size(); ++i)
    if (std::abs(y[i] - expected[i]) > 1e-5f) return std::printf("element %zu differs\n", i), 1;

  op.eps = -1;
  if (inlay::run(cpu, op).ok()) return std::printf("a negative eps passed\n"), 1;
  return run_tile_program();
}
