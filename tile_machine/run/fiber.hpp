// A fiber: a function with a stack of its own that can stop in the middle and go on later.
// One per core, so that a kernel reads as straight code while its core waits for another one.
#pragma once

#include <functional>
#include <memory>

namespace inlay::npu {

class Fiber {
 public:
  explicit Fiber(std::function<void()> body);
  void restart(std::function<void()> body);  // with the same stack, once it is done
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  bool started() const;  // false: there is no memory for its stack
  void resume();         // runs the body until it yields or ends; from outside
  void yield();          // back to resume()'s caller; from inside
  bool done() const;     // the body has ended
  bool threw() const;    // the body ended by an exception, which went no further

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace inlay::npu
