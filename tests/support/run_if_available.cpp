// run_if_available LEVEL PROGRAM ARGS..: starts the program if this machine executes the level.
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include <inlay/cpu.hpp>

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  for (inlay::Isa isa : inlay::available_isas())
    if (inlay::name(isa) == std::string_view(argv[1])) {
      execv(argv[2], argv + 2);
      std::perror(argv[2]);
      return 2;
    }
  std::printf("this machine has no %s: nothing to test\n", argv[1]);
  return 0;
}
