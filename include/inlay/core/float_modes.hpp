// set_flushes(on): whether this thread takes subnormal operands for zero and flushes subnormal
// results to it (DAZ and FTZ of MXCSR; FZ of FPCR, which is both). can_flush: whether we know the machine's flags.
// KeepSubnormals: while it lives, this thread's subnormal operands are what they are. NoFlushing: and its results too.
// take_float_modes(modes): this thread computes as another one, whose float_modes() they are.
#pragma once

#include <cstdint>

#include <inlay/core/inline.hpp>

namespace inlay::fp {

// The thread's modes of arithmetic, and their flags.
#if defined(__x86_64__)
inline constexpr bool can_flush = true;
inline constexpr std::uint64_t operands_flush = 0x40, all_flush = 0x8040;
inline constexpr std::uint64_t raised = 0x3f;  // the exceptions so far, no mode
INLAY_INLINE std::uint64_t float_modes() { return __builtin_ia32_stmxcsr(); }
INLAY_INLINE void set_float_modes(std::uint64_t modes) { __builtin_ia32_ldmxcsr(static_cast<unsigned>(modes)); }
#elif defined(__aarch64__)
inline constexpr bool can_flush = true;
inline constexpr std::uint64_t operands_flush = std::uint64_t{1} << 24, all_flush = operands_flush;
inline constexpr std::uint64_t raised = 0;
INLAY_INLINE std::uint64_t float_modes() {
  std::uint64_t modes;
  asm volatile("mrs %0, fpcr" : "=r"(modes));
  return modes;
}
INLAY_INLINE void set_float_modes(std::uint64_t modes) { asm volatile("msr fpcr, %0" : : "r"(modes)); }
#else
inline constexpr bool can_flush = false;
inline constexpr std::uint64_t operands_flush = 0, all_flush = 0;
inline constexpr std::uint64_t raised = 0;
INLAY_INLINE std::uint64_t float_modes() { return 0; }
INLAY_INLINE void set_float_modes(std::uint64_t) {}
#endif

INLAY_INLINE void set_flushes(bool on) { set_float_modes(on ? float_modes() | all_flush : float_modes() & ~all_flush); }

INLAY_INLINE void take_float_modes(std::uint64_t modes) {
  const std::uint64_t own = float_modes();
  if (((own ^ modes) & ~raised) != 0) set_float_modes((own & raised) | (modes & ~raised));
}

class KeepSubnormals {
 public:
  INLAY_INLINE KeepSubnormals() : KeepSubnormals(operands_flush) {}
  INLAY_INLINE ~KeepSubnormals() { set_float_modes(before_); }
  KeepSubnormals(const KeepSubnormals&) = delete;
  KeepSubnormals& operator=(const KeepSubnormals&) = delete;

 protected:
  INLAY_INLINE explicit KeepSubnormals(std::uint64_t without) : before_(float_modes()) {
    set_float_modes(before_ & ~without);
  }

 private:
  std::uint64_t before_;
};
class NoFlushing : KeepSubnormals {
 public:
  INLAY_INLINE NoFlushing() : KeepSubnormals(all_flush) {}
};

}  // namespace inlay::fp
