#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <inlay/core/version.hpp>
#include <inlay/exec/comm/lead.hpp>

#include "executor/exec/model_digest.hpp"

namespace inlay::exec {

namespace {

// What ranks must have in common, as words that a message can show.
using Facts = std::vector<std::pair<std::string, std::string>>;

Facts facts_of(const ModelConfig& config, const Weights& weights, const EngineOptions& options,
               std::string_view backend) {
  const BlockPool::Shape& cache = options.cache;
  return {{"the version", INLAY_VERSION},
          {"the backend", std::string(backend)},
          {"the model's architecture", config.architecture},
          {"the model's layers", std::to_string(config.layers)},
          {"the model's dim", std::to_string(config.dim)},
          {"the model's vocab", std::to_string(config.vocab)},
          {"the cut", !weights.layers.empty() && weights.layers.front().down.sums ? "rows" : "columns"},
          {"the model's digest", digest_of(weights)},
          {"context", std::to_string(options.context)},
          {"max_tokens", std::to_string(options.max_tokens)},
          {"activations", std::to_string(static_cast<int>(options.activations))},
          {"attention", std::to_string(static_cast<int>(options.attention))},
          {"the cache's type", std::string(name(cache.dtype))},
          {"the cache's block_size", std::to_string(cache.block_size)},
          {"the cache's blocks", std::to_string(cache.blocks)}};
}

// Words of all ranks, each with a zero behind it.
Expected<std::vector<Facts>> exchanged(const Comm& comm, const Facts& mine) {
  std::string words;
  for (const auto& [what, value] : mine) (words += what + '\0') += value + '\0';
  const auto size = static_cast<std::size_t>(comm.size);
  std::vector<std::size_t> bytes(size, sizeof(std::size_t)), lengths(size);
  const std::size_t length = words.size();
  Status status = comm.all_gather(comm.context, &length, bytes, lengths.data(), comm.deadline);
  if (!status.ok()) return failure(std::move(status));
  std::size_t sum = 0;
  for (const std::size_t each : lengths) sum += each;
  std::string all(sum, 0);
  status = comm.all_gather(comm.context, words.data(), lengths, all.data(), comm.deadline);
  if (!status.ok()) return failure(std::move(status));
  std::vector<Facts> facts(size);
  std::size_t at = 0, end = 0;
  const auto word = [&] {
    const std::string one = all.substr(at, all.find('\0', at) - at);
    at += one.size() + 1;
    return one;
  };
  for (std::size_t rank = 0; rank < size; ++rank) {
    end += lengths[rank];
    while (at < end) {
      std::string what = word();
      facts[rank].emplace_back(std::move(what), word());
    }
  }
  return facts;
}

}  // namespace

Status meet(const ModelConfig& config, const Weights& weights, const EngineOptions& options, std::string_view backend) {
  const Comm& comm = options.comm;
  if (comm.alone()) return {};
  auto facts = exchanged(comm, facts_of(config, weights, options, backend));
  if (!facts) {
    give_up(comm, facts.error());
    return std::move(facts.error());
  }
  for (std::size_t rank = 1; rank < facts->size(); ++rank)
    for (std::size_t i = 0; i < facts->front().size(); ++i) {
      const auto& [what, first] = facts->front()[i];
      const Facts& others = (*facts)[rank];
      const std::string value = i < others.size() && others[i].first == what ? others[i].second : "another program's";
      if (value != first)
        return invalid(what + " is " + value + " on rank " + std::to_string(rank) + " and " + first +
                       " on rank 0; it must be the same on all ranks");
    }
  return {};
}

}  // namespace inlay::exec
