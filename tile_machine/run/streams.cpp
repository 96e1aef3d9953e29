#include "tile_machine/run/streams.hpp"

#include <algorithm>
#include <span>

#include <inlay/core/float_modes.hpp>

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
  const fp::NoFlushing device;  // its arithmetic is not that of the thread that simulates it
  waiting_.assign(count, nullptr);
  cancelled_ = false;
  for (std::uint32_t stream = 0; stream < count; ++stream) {
    const auto run_stream = [&body, stream] { body(stream); };
    if (stream < fibers_.size()) {
      fibers_[stream]->restart(run_stream);
      continue;
    }
    auto fiber = std::make_unique<Fiber>(run_stream);
    if (!fiber->started()) return End::no_memory;
    fibers_.push_back(std::move(fiber));
  }
  End end = End::finished;
  const auto mine = std::span(fibers_).first(count);
  const auto done = [](const auto& fiber) { return fiber->done(); };
  for (bool progress = true; progress;) {
    progress = false;
    for (std::uint32_t stream = 0; stream < count; ++stream) {
      const bool runnable = !fibers_[stream]->done() && (waiting_[stream] == nullptr || (*waiting_[stream])());
      if (runnable) fibers_[stream]->resume();
      if (runnable || step(stream)) progress = true;
    }
  }
  bool left = !std::all_of(mine.begin(), mine.end(), done);
  for (std::uint32_t stream = 0; stream < count; ++stream) left = left || pending(stream);
  if (left) {
    stuck();
    end = End::deadlock;
    cancelled_ = true;
    for (auto& fiber : mine)
      while (!fiber->done()) fiber->resume();
  }
  const auto threw = [](const auto& fiber) { return fiber->threw(); };
  if (std::any_of(mine.begin(), mine.end(), threw)) end = End::threw;
  return end;
}

}  // namespace inlay::npu
