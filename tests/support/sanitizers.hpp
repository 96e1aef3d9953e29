#pragma once

namespace inlay::test {

// ThreadSanitizer looks at how threads share the work, which is the same at every level, and takes ten times as long:
// programs run at the machine's best level alone.
inline constexpr bool thread_sanitizer =
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
    true ||
#endif
#endif
    false;

}  // namespace inlay::test
