#include "tools/server.hpp"

#include <memory>
#include <type_traits>
#include <utility>

#include <inlay/model/load.hpp>

#include "tools/two_devices.hpp"

namespace inlay::tools {

namespace {

exec::Server::Options server_options(const ModelOptions& options, const TextsOptions& texts,
                                     const exec::ModelFile& file) {
  return {.context = options.context,
          .cache_tokens = texts.cache_tokens,
          .swap_tokens = texts.swap_tokens,
          .batch = {.tokens = options.chunk, .requests = texts.batch},
          .kv_type = kv_type(options, &file),
          .activations = options.rounding.of_linears(),
          .attention = options.rounding.of_attention(),
          .plans = options.plans,
          .comm = options.comm,
          .cut = cut_of(options)};
}

}  // namespace

std::vector<CLI::Option*> TextsOptions::add_to(CLI::App& command) {
  return {
      command.add_option("--batch", batch, "Texts that are written at once")->check(CLI::Range(1, 1 << 20)),
      command.add_option("--cache-tokens", cache_tokens, "Tokens that all of them keep (0: four times the context)")
          ->check(CLI::Range(0, 1 << 30)),
      command
          .add_option("--swap-tokens", swap_tokens,
                      "Tokens in the host's memory of texts that find no room in a device's, which are computed "
                      "again otherwise (--backend cl)")
          ->check(CLI::Range(0, 1 << 30))};
}

Expected<exec::Server> make_server(const ModelOptions& options, const LoadedModel& model, const TextsOptions& texts) {
  Progress progress("packing weights");
  const auto tell = [&](index done, index all) { progress(done, all); };
  const exec::Server::Options of_server = server_options(options, texts, *model.file);
  // A server's passes follow one another: there is one chunk at a time.
  return on_devices<exec::Server>(options, options.backend, 1, [&](auto run) -> Expected<exec::Server> {
    if constexpr (std::is_same_v<decltype(run), exec::Eager>)
      if (options.scales.empty())
        return exec::Server::make(model.file, std::move(run), model.tokenizer, of_server, tell);
    auto weights = load_scaled(options, model.file, run.parallel(), tell);
    if (!weights) return failure(std::move(weights.error()));
    return exec::Server::make(model.file->config, std::move(*weights), std::move(run), model.tokenizer, of_server);
  });
}

Status follow_server(const ModelOptions& options, const TextsOptions& texts) {
  auto runner = make_runner(options, options.backend);
  if (!runner) return std::move(runner.error());
  auto file = exec::load_model(options.model.empty() ? default_model() : options.model);
  if (!file) return std::move(file.error());
  const exec::Server::Options of_server = server_options(options, texts, *file);
  return exec::Server::follow(std::make_shared<const exec::ModelFile>(std::move(*file)), std::move(*runner), of_server);
}

}  // namespace inlay::tools
