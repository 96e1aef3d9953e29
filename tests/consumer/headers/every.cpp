// All kernels of a unit, for the instruction set that it is compiled for: UNIT names it.
#include "every.hpp"

#include <inlay/cpu_inline.hpp>

namespace {

template <class Op> inlay::Status run_inline(const Op& op, inlay::Workspace workspace) {
  return inlay::run(inlay::CpuInline(), op, workspace);
}

template <class... Ops> constexpr Every<Ops...> every(const Every<Ops...>*) { return {{run_inline<Ops>...}}; }

}  // namespace

constexpr decltype(UNIT) UNIT = every(static_cast<decltype(&UNIT)>(nullptr));
