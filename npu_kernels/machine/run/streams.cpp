#include "npu_kernels/machine/run/streams.hpp"

#include <algorithm>

namespace inlay::npu {

void Streams::block(std::uint32_t stream, const std::function<bool()>& ready) {
  while (!cancelled_ && !ready()) {
    if (step(stream)) continue;
    waiting_[stream] = &ready;
    fibers_[stream]->yield();
    waiting_[stream] = nullptr;
  }
}

Streams::End Streams::run(std::uint32_t count, const std::function<void(std::uint32_t)>& body) {
  fibers_.clear();
  waiting_.assign(count, nullptr);
  cancelled_ = false;
  for (std::uint32_t stream = 0; stream < count; ++stream) {
    fibers_.push_back(std::make_unique<Fiber>([&body, stream] { body(stream); }));
    if (!fibers_.back()->started()) return End::no_memory;
  }
  End end = End::finished;
  const auto done = [](const auto& fiber) { return fiber->done(); };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t stream = 0; stream < count; ++stream) {
      const bool runnable = !fibers_[stream]->done() && (waiting_[stream] == nullptr || (*waiting_[stream])());
      if (runnable) fibers_[stream]->resume();
      if (runnable || step(stream)) progress = true;
    }
  }
  bool left = !std::all_of(fibers_.begin(), fibers_.end(), done);
  for (std::uint32_t stream = 0; stream < count; ++stream) left = left || pending(stream);
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
