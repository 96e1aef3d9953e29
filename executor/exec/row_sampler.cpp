#include <inlay/exec/row_sampler.hpp>

#include <algorithm>
#include <atomic>
#include <utility>

namespace inlay::exec {

void RowSampler::operator()(const Cpu& cpu, const View<2>& logits, std::span<Engine::Draw> draws) {
  if (draws.empty()) return;
  const Cpu alone(cpu.isa(), serial());
  const index vocab = logits.extents[1], rows = std::ssize(draws);
  const auto threads = static_cast<std::size_t>(std::min<index>(rows, cpu.parallel().width));
  if (scratch_.size() < threads) scratch_.resize(threads);
  std::int32_t any = -1;
  const std::size_t bytes =
      scratch_bytes(alone, Sampling<Host>{.logits = logits.slice(0, 0, 1), .tokens = {&any, DType::i32, {1}}});
  for (std::size_t i = 0; i < threads; ++i)
    if (scratch_[i].size() < bytes) scratch_[i].resize(bytes);

  // As the kernel estimates them.
  const Work work = static_cast<double>(rows * vocab) * Work{.bytes = 8, .operations = 50};
  std::atomic<index> next = 0;
  cpu.parallel()(static_cast<index>(threads), work, [&](index thread) {
    auto& scratch = scratch_[static_cast<std::size_t>(thread)];
    for (index i = next++; i < rows; i = next++) {
      Engine::Draw& draw = draws[static_cast<std::size_t>(i)];
      std::int32_t token = -1;
      Sampling<Host> op = draw.settings;
      op.logits = logits.slice(0, draw.row, 1);
      op.tokens = {&token, DType::i32, {1}};
      Status status = run(
          alone, op, [&](std::size_t wanted) { return Workspace(scratch.data(), std::min(wanted, scratch.size())); });
      if (status.ok())
        draw.token = token;
      else
        draw.token = failure(std::move(status));
    }
  });
}

}  // namespace inlay::exec
