// Backends, and how each runs an operator:
//
//   check       the contract: the same for every backend                                 Status check(op)
//   supports    does this backend declare that it can?  (docs/support_table.md)
//               an operator that has no element to write is done here
//   scratch     how much, and is the caller's workspace large enough
//   compute     the kernels
//   outcome     what only the data could tell: a row of NaN has no token                 Status outcome(op), optional
//
// in this order and once, in `run` below. A backend is a class with the space that it computes in,
//
//   class Cl {
//    public:
//     using Space = Cl;                                  // Host for those that work on host memory
//     static constexpr std::string_view name = "cl";
//
// and three templates beside it, found by its argument:
//
//   Status      supports(backend, op)
//   std::size_t scratch_bytes(backend, op)               // op has passed check and supports
//   Status      compute(backend, op, workspace)          // and the workspace is as large
//
// What the experts of a mixture compute it may be given one by one (core/experts.hpp).
//
// compute specialises in the operator's own file: there is no central list, and an operator without an
// implementation is a link error with its name in it.
//
// A device may still compute when run returns; finish(backend) waits. Contents of device memory (block tables,
// lengths, slots, ids, permutations) cannot be checked before: a kernel never reads or writes outside its
// views whatever they hold, writes nothing for the offending row, and the first offence (operator, field, index,
// value) is the Status of the next finish(). On host memory check has seen to them.
#pragma once

#include <algorithm>
#include <string_view>

#include <inlay/core/check.hpp>
#include <inlay/core/experts.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/rebind.hpp>
#include <inlay/core/workspace.hpp>

namespace inlay {

template <class Backend> using SpaceOf = typename std::remove_cvref_t<Backend>::Space;

// A backend computes an operator whose views lie in its space.
template <class Backend, class Op>
concept RunsOn = std::is_same_v<SpaceOf<Backend>, SpaceOfOp<Op>>;

// From a number of bytes to a workspace: asked once, after the checks.
template <class Provide, class Backend>
concept ProvidesWorkspace = std::is_invocable_r_v<WorkspaceIn<SpaceOf<Backend>>, Provide, std::size_t>;

inline namespace INLAY_UNIT_ISA {

// Of all parts of an operator, one behind the other.
template <class Backend, class Op> Status supports_parts(Backend& backend, const Op& op) {
  return each_part<Backend>(op, [&](const auto& part) { return supports(backend, part); });
}
template <class Backend, class Op> std::size_t scratch_of_parts(Backend& backend, const Op& op) {
  std::size_t most = 0;
  const Status all = each_part<Backend>(op, [&](const auto& part) {
    most = std::max(most, scratch_bytes(backend, part));
    return Status{};
  });
  return all.ok() ? most : 0;
}

// Right, or a Status that says what is wrong: then nothing was written, but for what outcome() states.
template <class Backend, class Op, class Provide>
requires RunsOn<Backend, Op> && ProvidesWorkspace<Provide, Backend> Status run(Backend&& backend, const Op& op,
                                                                               Provide&& provide) {
  if (Status status = check(op); !status.ok()) return status;
  if (Status status = supports_parts(backend, op); !status.ok()) return status;
  if (writes_nothing(op)) return {};
  const std::size_t needed = scratch_of_parts(backend, op);
  const WorkspaceIn<SpaceOf<Backend>> workspace = provide(needed);
  if (Status status = check_workspace<SpaceOf<Backend>>(workspace, needed); !status.ok()) return status;
  Status status = each_part<Backend>(op, [&](const auto& part) { return compute(backend, part, workspace); });
  if constexpr (requires { outcome(op); }) {
    if (status.ok()) return outcome(op);
  }
  return status;
}

template <class Backend, class Op>
requires RunsOn<Backend, Op> Status run(Backend&& backend, const Op& op,
                                        const WorkspaceIn<SpaceOf<Backend>>& workspace = {}) {
  return run(backend, op, [&](std::size_t) { return workspace; });
}

// The scratch that run needs. 0 for an operator that it will refuse (run says why) or that has nothing to write.
template <class Backend, class Op>
requires RunsOn<Backend, Op> std::size_t workspace_bytes(Backend&& backend, const Op& op) {
  return check(op).ok() && supports_parts(backend, op).ok() && !writes_nothing(op) ? scratch_of_parts(backend, op) : 0;
}

// Waits until all that was given to the backend is done, and tells the first offence since the last call.
template <class Backend> Status finish(Backend&& backend) {
  if constexpr (requires { backend.finish(); }) return backend.finish();
  return {};
}

// What a device says of contents that `check` would have refused: the operator's name before its words.
template <class Op> Status offence(const Status& refused) {
  return {refused.code(), Text(Op::name) + ": " + refused.message()};
}

}  // namespace INLAY_UNIT_ISA

// The textbook: scalar, in double, rounded once. Needs no workspace and declines nothing.
class Reference {
 public:
  using Space = Host;
  static constexpr std::string_view name = "reference";
  static constexpr bool groups_experts = true;
};

namespace reference {
// One specialisation per operator, in reference/<op>.cpp. `op` has passed its check.
template <class Op> Status compute(const Op& op);
}  // namespace reference

inline namespace INLAY_UNIT_ISA {

template <class Op> Status supports(const Reference&, const Op&) { return {}; }
template <class Op> std::size_t scratch_bytes(const Reference&, const Op&) { return 0; }
template <class Op> Status compute(const Reference&, const Op& op, Workspace) { return reference::compute(op); }

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
