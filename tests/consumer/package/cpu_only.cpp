// An engine that knows of us what pkg-config says: operators on the CPU, and nothing else.
#include <cstdio>

#include <inlay/inlay.hpp>

int main() {
  const float x[] = {3, -3, 3, -3}, weight[] = {1, 2, 3, 4}, expected[] = {1, -2, 3, -4};
  float y[4] = {};
  const inlay::RmsNorm<inlay::Host> norm{.x = {x, {1, 4}}, .weight = {weight, {4}}, .y = {y, {1, 4}}, .eps = 0};
  if (auto status = inlay::run(inlay::Cpu(), norm); !status.ok())
    return std::printf("%s\n", status.message().data()), 1;
  for (int i = 0; i < 4; ++i)
    if (y[i] != expected[i]) return std::printf("element %d is %g\n", i, static_cast<double>(y[i])), 1;
  return 0;
}
