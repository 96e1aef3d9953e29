// run_if_available LEVEL PROGRAM ARGS..: starts the program if this machine executes the level. Otherwise ctest shows it
// as skipped (77), unless INLAY_REQUIRE names the level.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include <inlay/cpu.hpp>

#include "tests/support/requirements.hpp"

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::string_view level = argv[1];
  if (inlay::available_isa(level)) {
    execv(argv[2], argv + 2);
    std::perror(argv[2]);
    return 2;
  }
  std::printf("not tested: simd_%s (%s): this machine has no %s\n", argv[1], argv[1], argv[1]);
  return inlay::test::required(level) ? 1 : 77;
}
