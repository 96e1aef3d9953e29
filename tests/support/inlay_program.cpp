#include "tests/support/inlay_program.hpp"

namespace inlay::test {

const char* const inlay_program = INLAY_PROGRAM;

}  // namespace inlay::test
