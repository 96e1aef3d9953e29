// Backends, and the four questions each answers for an operator:
//
//   Status      check(op)                       the contract: the same for every backend
//   Status      supports(backend, op)           a declared capability (docs/support_table.md)
//   std::size_t workspace_bytes(backend, op)    scratch that run needs
//   Status      run(backend, op, workspace)     right, or a Status that says what is wrong
//
// In place of the workspace, run takes a function from bytes to a workspace too: one check for both questions.
//
// They are templates that each operator's own file specialises: there is no central list, and an
// operator without an implementation is a link error with its name in it.
#pragma once

#include <inlay/core/check.hpp>
#include <inlay/core/workspace.hpp>

namespace inlay {

// What only the data could tell (a row of NaN has no token): an operator's header may define
// Status outcome(op), and run asks it last. Kernels themselves build no messages.
template <class Op> Status with_outcome(Status status, const Op& op) {
  if constexpr (requires { outcome(op); }) {
    if (status.ok()) return outcome(op);
  }
  return status;
}

// The textbook: scalar, in double, rounded once. Needs no workspace and declines nothing.
class Reference {};

namespace reference {
// One specialisation per operator, in reference/<op>.cpp. `op` has passed its check.
template <class Op> Status compute(const Op& op);
}  // namespace reference

template <class Op> Status supports(const Reference&, const Op&) { return {}; }
template <class Op> std::size_t workspace_bytes(const Reference&, const Op&) { return 0; }
template <class Op> Status run(Reference&, const Op& op, Workspace = {}) {
  if (Status status = check(op); !status.ok()) return status;
  return with_outcome(reference::compute(op), op);
}
template <class Op, class Provide>
requires std::is_invocable_r_v<Workspace, Provide, std::size_t> Status run(Reference& reference, const Op& op,
                                                                           Provide&&) {
  return run(reference, op);
}

}  // namespace inlay
