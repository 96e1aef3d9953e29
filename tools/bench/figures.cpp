#include <algorithm>

#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/model_tensors.hpp>

#include "tools/bench/model.hpp"

namespace inlay::tools::bench_model {

double cache_bytes(const exec::ModelConfig& config, DType kv_type, index depth) {
  return static_cast<double>(exec::bytes_a_token(exec::cache_shape(config, kv_type, 1, 1)) * depth);
}

double prefill_flops(const exec::ModelConfig& c, index tokens) {
  const double n = static_cast<double>(tokens);
  double of_token = 0, attention = 0;
  const Status counted = exec::for_each_tensor(c, [&](const exec::TensorFacts& tensor) {
    if ((tensor.layer < 0 && tensor.part != exec::Part::layer_inputs_projection) || tensor.rank < 2) return Status{};
    double size = 1;
    for (int d = 0; d < tensor.rank; ++d) size *= static_cast<double>(tensor.extents[static_cast<std::size_t>(d)]);
    // Of experts a token has top_k.
    of_token +=
        tensor.rank == 3 ? size * static_cast<double>(c.experts.top_k) / static_cast<double>(c.experts.count) : size;
    return Status{};
  });
  for (index i = 0; counted.ok() && i < c.layers; ++i) {
    const exec::LayerConfig layer = c.layer(i);
    const double window = layer.window > 0 ? std::min(n, static_cast<double>(layer.window)) : n;
    const double pairs = n * window - window * window / 2;
    attention += 2 * pairs * static_cast<double>(c.heads * (layer.head_dim + c.value_dim(layer)));
  }
  return 2 * n * of_token + attention + 2 * static_cast<double>(c.vocab) * static_cast<double>(c.dim);
}

void print_share(const measure::Processors& processors, const Machine& machine, double rate, double limit,
                 const char* unit) {
  const Cpu& cpu = machine.cpu;
  if (machine.ranks > 1)
    std::printf("%d ranks\n", machine.ranks);
  else if (processors.disturbed(cpu.parallel().width))
    std::printf("disturbed\n");
  else
    std::printf("%5.1f%% of %.1f %s\n", 100 * rate / limit, limit * 1e-9, unit);
  std::fflush(stdout);
}

}  // namespace inlay::tools::bench_model
