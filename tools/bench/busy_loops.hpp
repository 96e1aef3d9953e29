// Processes that take processor time from us: what a neighbour on the same machine is to a program.
#pragma once

#include <sys/types.h>

#include <vector>

namespace inlay::tools {

// Made stopped, by a program that holds little memory yet: pages that a child shares with us cost a fault each when we
// write to them. They end with this object, and with the process.
class BusyLoops {
 public:
  explicit BusyLoops(int most);
  ~BusyLoops();
  BusyLoops(const BusyLoops&) = delete;
  BusyLoops& operator=(const BusyLoops&) = delete;

  int count() const { return static_cast<int>(children_.size()); }
  // The first `count` of them run, the others stand.
  void run(int count);

 private:
  std::vector<pid_t> children_;
};

}  // namespace inlay::tools
