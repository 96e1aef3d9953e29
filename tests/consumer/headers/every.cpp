// All kernels for the instruction set that this unit is compiled for: UNIT names it.
#include "every.hpp"

#include <inlay/cpu_inline.hpp>

namespace {

template <class Op> inlay::Status run_inline(const Op& op, inlay::Workspace workspace) {
  return inlay::run(inlay::CpuInline(), op, workspace);
}

template <class... Ops> constexpr Every<Ops...> every(const Every<Ops...>*) { return {{run_inline<Ops>...}}; }

}  // namespace

constexpr Unit UNIT = every(static_cast<const Unit*>(nullptr));
