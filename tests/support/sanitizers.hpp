#pragma once

// The sanitizer's runtime, where the program is linked with it: tests may be linked as they were compiled for
// another build (INLAY_PLAIN_BUILD).
extern "C" [[gnu::weak]] void __tsan_init();  // NOLINT(bugprone-reserved-identifier)
extern "C" [[gnu::weak]] void __asan_init();  // NOLINT(bugprone-reserved-identifier)

namespace inlay::test {

// ThreadSanitizer looks at how threads share the work, which is the same at every level, and takes ten times as long:
// programs run at the machine's best level alone.
inline const bool thread_sanitizer = __tsan_init != nullptr;
// AddressSanitizer's malloc may be locked by another thread when a child is born, for good.
inline const bool address_sanitizer = __asan_init != nullptr;

}  // namespace inlay::test
