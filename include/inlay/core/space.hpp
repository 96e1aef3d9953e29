// Memory spaces. A space says what its views point with and the three things that views ask of a pointer:
//
//   template <> struct SpacePointer<Cl> {
//     using Mutable = ...;                                        // for example {buffer, byte offset}
//     using Const = ...;                                          // Mutable converts to it
//     static const void* allocation(Const p);                     // what p points into, by an address of its own
//     static std::ptrdiff_t byte_offset(Const p);                 // from the beginning of that
//     template <class P> static P advance(P p, std::ptrdiff_t n); // n bytes further in it
//   };
//
// A pointer without a value is null, and == compares pointers. Everything that Inlay does to memory it does
// not run kernels in (slices, overlaps, workspaces, staging) goes through these.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <inlay/core/inline.hpp>

namespace inlay {

inline namespace INLAY_VERSION_NAMESPACE {

// A space is named after what owns the memory.
struct Host {};

}  // namespace INLAY_VERSION_NAMESPACE

class Cl;  // a backend that a build may lack

template <class Space> struct SpacePointer;

// All host memory is one allocation: addresses can be compared, and offsets are addresses.
template <> struct SpacePointer<Host> {
  using Mutable = void*;
  using Const = const void*;

  static INLAY_INLINE constexpr const void* allocation(Const) { return nullptr; }
  static INLAY_INLINE std::ptrdiff_t byte_offset(Const p) { return reinterpret_cast<std::intptr_t>(p); }
  template <class P> static INLAY_INLINE constexpr P advance(P p, std::ptrdiff_t n) {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<P>>, const std::byte, std::byte>;
    return p == nullptr ? p : static_cast<Byte*>(p) + n;  // a view without elements may have no memory
  }
};

template <class Space>
concept MemorySpace = requires(typename SpacePointer<Space>::Mutable p, typename SpacePointer<Space>::Const c) {
  {c = p};
  { c == c } -> std::convertible_to<bool>;
  { SpacePointer<Space>::allocation(c) } -> std::same_as<const void*>;
  { SpacePointer<Space>::byte_offset(c) } -> std::same_as<std::ptrdiff_t>;
  { SpacePointer<Space>::advance(p, std::ptrdiff_t{}) } -> std::same_as<typename SpacePointer<Space>::Mutable>;
  { SpacePointer<Space>::advance(c, std::ptrdiff_t{}) } -> std::same_as<typename SpacePointer<Space>::Const>;
};
static_assert(MemorySpace<Host>);

}  // namespace inlay
