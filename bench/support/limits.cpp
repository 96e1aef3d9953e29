#include "measure/limits.hpp"

#include "bench/support/measure.hpp"

namespace inlay::bench {

double limit_seconds(const Cpu& cpu, const Work& work) {
  switch (work.limit) {
    case Limit::memory: return work.bytes / measure::transfer_rate(cpu, work.written / (work.bytes - work.written));
    case Limit::bf16: return work.flops / measure::bf16_rate(cpu);
    case Limit::int8: return work.flops / measure::int8_rate(cpu);
    case Limit::fma: break;
  }
  return work.flops / measure::fma_rate(cpu);
}

}  // namespace inlay::bench
