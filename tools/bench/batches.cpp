#include <algorithm>
#include <iterator>
#include <span>

#include <inlay/exec/comm/lead.hpp>
#include <inlay/exec/kv_pool.hpp>
#include <inlay/model/random_weights.hpp>

#include "measure/limits.hpp"
#include "tools/bench/model.hpp"
#include "tools/ranks.hpp"
#include "tools/two_devices.hpp"

namespace inlay::tools::bench_model {

namespace {

using measure::seconds;

int bench_batch(exec::Engine& engine, double linear_bytes, const Machine& machine, index texts, index depth,
                const Options& options) {
  const Cpu& cpu = machine.cpu;
  const index tokens = options.tokens * std::ssize(options.plans);
  const exec::ModelConfig& config = engine.config();
  Status status = engine.reserve_logits(texts);
  std::vector<exec::Sequence> sequences(static_cast<std::size_t>(texts));
  exec::Batch batch;
  const auto pass = [&] {
    if (status.ok()) status = engine.forward(batch, 0);
    batch.clear();
  };
  for (exec::Sequence& each : sequences) {
    const auto prompt = any_prompt(depth, config.vocab);
    for (index done = 0; done < depth && status.ok(); done = each.length) {
      const auto part = std::span(prompt)
                            .subspan(static_cast<std::size_t>(done))
                            .first(static_cast<std::size_t>(std::min(depth - done, chunk)));
      status = batch.add_prompt(engine.blocks(), each, part);
      pass();
      each.length += static_cast<index>(part.size());
    }
  }
  Turns turns(options.plans);
  std::vector<double> reads;
  measure::Processors processors;
  for (index i = 0; i < tokens + 1 && status.ok(); ++i) {
    reads.push_back(measure::read_rate(cpu));
    engine.use_plans(turns.next());
    if (i > 0) processors.begin();
    const double time = seconds([&] {
      for (exec::Sequence& each : sequences) {
        const auto token = static_cast<exec::Token>((i + 2) % config.vocab);
        if (status.ok()) status = batch.add_generated(engine.blocks(), each, {&token, 1});
      }
      pass();
    });
    for (exec::Sequence& each : sequences) ++each.length;
    if (i == 0) continue;  // touches memory for the first time
    processors.end();
    turns.add(time);
  }
  for (exec::Sequence& each : sequences) engine.blocks().release(each);
  if (!status.ok()) return wrong(status);
  const double bytes = linear_bytes + static_cast<double>(texts) *
                                          cache_bytes(config, engine.blocks().shape().dtype, depth + 1 + tokens / 2);
  turns.each([&](double time) {
    std::printf("decode of %2ld texts at depth %5ld   %7.2f tok/s %9.2f GB/s     ", static_cast<long>(texts),
                static_cast<long>(depth), static_cast<double>(texts) / time, bytes / time * 1e-9);
    print_share(processors, machine, bytes / time, *std::max_element(reads.begin(), reads.end()), "GB/s read");
  });
  return 0;
}

// Of many texts, with what this rank has of the model.
struct EngineOfMany {
  std::unique_ptr<exec::Engine> engine;
  double linear_bytes;
};
Expected<EngineOfMany> engine_of_many(const Options& options, const Setting& setting) {
  const ModelOptions& settings = setting.model;
  const exec::Comm& comm = settings.comm;
  const index most = *std::max_element(options.batch.begin(), options.batch.end());
  const index depth = options.depth.empty() ? 0 : *std::max_element(options.depth.begin(), options.depth.end());
  constexpr index block_size = 16;
  const index tokens = options.tokens * std::ssize(options.plans);
  return on_devices<EngineOfMany>(settings, settings.backend, 1, [&](auto run) -> Expected<EngineOfMany> {
    auto cut = exec::RankCut::make(setting.config, comm.rank, comm.size, cut_of(settings));
    if (!cut) return failure(std::move(cut.error()));
    auto weights = setting.file ? exec::load_weights(
                                      setting.file, run.parallel(), [](index, index) {}, *cut)
                                : exec::random_weights(setting.config, options.type, run.parallel(), 1, *cut);
    if (!weights) return failure(std::move(weights.error()));
    const auto linear_bytes = static_cast<double>(weights->linear_bytes);
    const exec::ModelConfig own = cut->config();
    auto engine = exec::make_engine(own, std::move(*weights), std::move(run),
                                    {.max_tokens = std::max(chunk, most),
                                     .context = settings.context,
                                     .activations = settings.rounding.of_linears(),
                                     .attention = settings.rounding.of_attention(),
                                     .cache = exec::cache_shape(own, kv_type(settings, setting.file.get()), block_size,
                                                                most * (depth + 1 + tokens + block_size)),
                                     .comm = comm});
    if (!engine) return failure(std::move(engine.error()));
    return EngineOfMany{std::move(*engine), linear_bytes};
  });
}

}  // namespace

int bench_batches(const Options& options, const Setting& setting, const Machine& machine) {
  auto many = engine_of_many(options, setting);
  if (!many) return wrong(many.error());
  for (index at : options.depth)
    for (index texts : options.batch)
      if (int code = bench_batch(*many->engine, many->linear_bytes, machine, texts, at, options); code != 0)
        return code;
  return 0;
}

Status follow_batches(const Options& options, const Setting& setting) {
  auto many = engine_of_many(options, setting);
  return many ? exec::follow(*many->engine, setting.model.comm) : std::move(many.error());
}

}  // namespace inlay::tools::bench_model
