#include "tools/bench/busy_loops.hpp"

#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

namespace inlay::tools {

namespace {

[[noreturn]] void loop() {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::raise(SIGSTOP);
  volatile unsigned turns = 0;
  for (;;) turns = turns + 1;
}

}  // namespace

BusyLoops::BusyLoops(int most) {
  for (int i = 0; i < most; ++i) {
    const pid_t child = ::fork();
    if (child == 0) loop();
    if (child < 0) return;
    children_.push_back(child);
    ::waitpid(child, nullptr, WUNTRACED);
  }
}

BusyLoops::~BusyLoops() {
  for (pid_t child : children_) {
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
}

void BusyLoops::run(int count) {
  for (int i = 0; i < this->count(); ++i) ::kill(children_[static_cast<std::size_t>(i)], i < count ? SIGCONT : SIGSTOP);
  ::usleep(20000);  // until the scheduler has seen them
}

}  // namespace inlay::tools
