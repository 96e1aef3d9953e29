// This version of Inlay. CHANGELOG.md says what a program may rely on between versions.
#pragma once

#define INLAY_VERSION_MAJOR 0
#define INLAY_VERSION_MINOR 9
#define INLAY_VERSION_PATCH 0
#define INLAY_VERSION "0.9.0"

// Two versions may share a process (inlay/core/inline.hpp): the inline namespace of types that they must not share, and
// how the names of a unit's functions begin.
#define INLAY_VERSION_NAMESPACE v0_9
#define INLAY_VERSION_ISA v0_9_isa_
