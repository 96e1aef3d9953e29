#include "npu_kernels/machine/run/streams.hpp"

#include <algorithm>

namespace inlay::npu {

void Streams::block(std::uint32_t core, const std::function<bool()>& ready) {
  while (!cancelled_ && !ready()) {
    if (step(core)) continue;
    waiting_[core] = &ready;
    fibers_[core]->yield();
    waiting_[core] = nullptr;
  }
}

Streams::End Streams::run(std::uint32_t cores, const std::function<void(std::uint32_t)>& body) {
  fibers_.clear();
  waiting_.assign(cores, nullptr);
  cancelled_ = false;
  for (std::uint32_t core = 0; core < cores; ++core) {
    fibers_.push_back(std::make_unique<Fiber>([&body, core] { body(core); }));
    if (!fibers_.back()->started()) return End::no_memory;
  }
  End end = End::finished;
  const auto done = [](const auto& fiber) { return fiber->done(); };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t core = 0; core < cores; ++core) {
      const bool runnable = !fibers_[core]->done() && (waiting_[core] == nullptr || (*waiting_[core])());
      if (runnable) fibers_[core]->resume();
      if (runnable || step(core)) progress = true;
    }
  }
  bool left = !std::all_of(fibers_.begin(), fibers_.end(), done);
  for (std::uint32_t core = 0; core < cores; ++core) left = left || pending(core);
  if (left) {
    stuck();
    end = End::deadlock;
    cancelled_ = true;
    for (auto& fiber : fibers_)
      while (!fiber->done()) fiber->resume();
  }
  const auto threw = [](const auto& fiber) { return fiber->threw(); };
  if (std::any_of(fibers_.begin(), fibers_.end(), threw)) end = End::threw;
  fibers_.clear();
  return end;
}

}  // namespace inlay::npu
