// A plugin with a version of Inlay inside: it shares its process with one that holds another version (host.cpp).
#include <cmath>
#include <string_view>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/core/version.hpp>
#include <inlay/inlay.hpp>

// The version, or null where something is wrong.
extern "C" const char* PLUGIN() {
  constexpr inlay::index rows = 512, dim = 64;  // so many are worth handing out
  std::vector<float> x(rows * dim, 3.0f), weight(dim, 2.0f), y(x.size());
  std::vector<inlay::RmsNorm<inlay::Host>> norms;  // std's functions too differ where the struct does
  norms.push_back({.x = {x.data(), {rows, dim}}, .weight = {weight.data(), {dim}}, .y = {y.data(), {rows, dim}}});
  norms.push_back(norms.front());
  norms.back().eps = -1;

  const inlay::Cpu cpu(inlay::threads(3));
  if (!inlay::run(cpu, norms.front()).ok()) return nullptr;
  for (const float value : y)
    if (std::abs(value - 2) > 1e-5f) return nullptr;
  const inlay::Status refused = inlay::run(cpu, norms.back());
  if (refused.ok() || refused.message() != "eps is -1.000000; it must be zero or more, and finite") return nullptr;
  return INLAY_VERSION;
}
