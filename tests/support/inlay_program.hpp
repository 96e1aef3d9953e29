#pragma once

namespace inlay::test {

// The command line of the build that a test is linked in, whichever build has compiled the test (INLAY_PLAIN_BUILD).
extern const char* const inlay_program;

}  // namespace inlay::test
