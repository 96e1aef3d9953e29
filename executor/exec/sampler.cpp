#include <inlay/exec/sampler.hpp>

#include <limits>
#include <string>
#include <utility>

#include <inlay/cpu.hpp>

namespace inlay::exec {

namespace {

Status check_outside(const Sampling<Host>& settings, std::span<const LogitBias> biases, index vocab) {
  if (settings.probs.present()) return invalid("probs is given; it must be left out: the logits stay inside");
  for (const LogitBias& each : biases) {
    if (each.token < 0 || each.token >= vocab)
      return invalid("the token of a logit bias is " + std::to_string(each.token) + "; it must be in 0.." +
                     std::to_string(vocab - 1));
    if (!(each.bias < std::numeric_limits<float>::infinity()))
      return invalid("the bias of token " + std::to_string(each.token) + " is " + std::to_string(each.bias) +
                     "; it must be finite or -infinity");
  }
  return {};
}

}  // namespace

Status Sampler::check(const Sampling<Host>& settings, std::span<const LogitBias> biases, index vocab) {
  if (Status status = check_outside(settings, biases, vocab); !status.ok()) return status;
  biased_.resize(static_cast<std::size_t>(vocab));  // no value of it is looked at
  std::int32_t token = -1;
  Sampling<Host> any = settings;
  any.logits = {biased_.data(), {1, vocab}};
  any.tokens = {&token, {1}};
  return inlay::check(any);
}

Expected<Token> Sampler::operator()(Engine& engine, index row, const Sampling<Host>& settings,
                                    std::span<const LogitBias> biases) {
  const index vocab = engine.config().vocab;
  if (Status status = check_outside(settings, biases, vocab); !status.ok()) return failure(std::move(status));
  if (biases.empty()) return engine.sample(settings, row);
  auto logits = engine.logits(row, 1);
  if (!logits) return failure(std::move(logits.error()));
  biased_.assign(logits->as<float>(), logits->as<float>() + vocab);
  for (const LogitBias& each : biases) biased_[static_cast<std::size_t>(each.token)] += each.bias;
  std::int32_t token = -1;
  Sampling<Host> sampling = settings;
  sampling.logits = {biased_.data(), {1, vocab}};
  sampling.tokens = {&token, {1}};
  const Cpu cpu(serial());
  const auto provide = [this](std::size_t bytes) {
    if (scratch_.size() < bytes) scratch_.resize(bytes);
    return Workspace(scratch_.data(), scratch_.size());
  };
  if (Status status = run(cpu, sampling, provide); !status.ok()) return failure(std::move(status));
  return token;
}

}  // namespace inlay::exec
