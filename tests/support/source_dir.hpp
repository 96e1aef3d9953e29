#pragma once

namespace inlay::test {

// The checkout: told by one object, that a cache of compilers may give the others to every checkout.
extern const char* const source_dir;

}  // namespace inlay::test
