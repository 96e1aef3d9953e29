#include "tests/support/source_dir.hpp"

namespace inlay::test {

const char* const source_dir = INLAY_SOURCE_DIR;

}  // namespace inlay::test
