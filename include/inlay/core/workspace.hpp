// Scratch memory that the caller owns: sized by workspace_bytes(backend, op), checked by run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>

#include <inlay/core/dtype.hpp>
#include <inlay/core/inline.hpp>
#include <inlay/core/space.hpp>
#include <inlay/core/status.hpp>
#include <inlay/core/text.hpp>

namespace inlay {

using Workspace = std::span<std::byte>;

// Scratch in a space of its own: it lies where the operator's views lie.
template <class Space> struct SpaceWorkspace {
  typename SpacePointer<Space>::Mutable begin{};
  std::size_t bytes = 0;

  INLAY_INLINE auto data() const { return begin; }
  INLAY_INLINE std::size_t size() const { return bytes; }
};
template <class Space>
using WorkspaceIn = std::conditional_t<std::is_same_v<Space, Host>, Workspace, SpaceWorkspace<Space>>;

inline constexpr std::size_t workspace_alignment = 64;

inline namespace INLAY_UNIT_ISA {

template <class Space = Host> Status check_workspace(const WorkspaceIn<Space>& workspace, std::size_t needed) {
  if (needed == 0) return {};
  if (workspace.size() < needed)
    return invalid("workspace has " + number(workspace.size()) + " bytes; it must have at least " + number(needed) +
                   " (workspace_bytes)");
  if (SpacePointer<Space>::byte_offset(workspace.data()) % static_cast<std::ptrdiff_t>(workspace_alignment) != 0)
    return invalid("workspace begins at an address that is no multiple of 64; it must be aligned to 64 bytes");
  return {};
}

// Cuts a workspace of the host into aligned arrays, in the same order in which the sizes were added up.
class WorkspaceCutter {
 public:
  explicit WorkspaceCutter(Workspace workspace) : at_(workspace.data()) {}
  template <class T> T* take(index count) {
    T* const result = reinterpret_cast<T*>(at_);
    at_ += padded<T>(count);
    return result;
  }
  // The bytes that take<T>(count) uses up.
  template <class T> static constexpr std::size_t padded(index count) {
    const std::size_t bytes = static_cast<std::size_t>(count) * sizeof(T);
    return (bytes + workspace_alignment - 1) / workspace_alignment * workspace_alignment;
  }

 private:
  std::byte* at_;
};

}  // namespace INLAY_UNIT_ISA

}  // namespace inlay
