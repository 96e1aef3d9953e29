#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include <inlay/exec/calibration.hpp>
#include <inlay/exec/decoder.hpp>
#include <inlay/exec/eager.hpp>
#include <inlay/exec/kv_pool.hpp>

namespace inlay::exec {
namespace {

// Magnitudes, counted by their upper half: of each power of two 128 parts.
class Magnitudes {
 public:
  // False: it is not finite.
  bool add(float value) {
    const float magnitude = std::fabs(value);
    if (!std::isfinite(magnitude)) return false;
    ++counts_[std::bit_cast<std::uint32_t>(magnitude) >> 16];
    largest_ = std::max(largest_, magnitude);
    ++all_;
    return true;
  }
  // Nothing where all are 0. The percentile is rounded up to the end of its part.
  std::optional<ActivationRange> range(double percentile) const {
    if (largest_ == 0) return std::nullopt;
    const auto wanted = static_cast<std::uint64_t>(std::ceil(static_cast<double>(all_) * percentile / 100));
    std::uint64_t below = 0;
    for (std::uint32_t part = 0; part < counts_.size(); ++part)
      if ((below += counts_[part]) >= wanted) {
        const float end = std::bit_cast<float>((part + 1) << 16);
        return ActivationRange{largest_, std::min(largest_, end)};
      }
    return ActivationRange{largest_, largest_};
  }

 private:
  std::vector<std::uint64_t> counts_ = std::vector<std::uint64_t>(std::size_t{1} << 15);
  float largest_ = 0;
  std::uint64_t all_ = 0;
};

struct Site {
  std::string name;
  Magnitudes seen;
};

// Computes each operator as it comes, and looks at what linears of int8 read.
class Watching {
 public:
  explicit Watching(Cpu cpu) : run_(std::move(cpu)) {}

  // That weight reads the x of this site.
  void watch(const LinearWeight& weight, Site& site) {
    const auto* int8 = std::get_if<LinearWeight::Int8>(&weight.form());
    if (int8 != nullptr && weight.channels() != 0) sites_[int8->packed.view().data] = &site;
  }
  bool watches_any() const { return !sites_.empty(); }

  template <class Op> void operator()(const Op& op) {
    if constexpr (std::is_same_v<Op, LinearInt8<Host>>) look(op);
    run_(op);
  }
  Status take_status() {
    Status status = run_.take_status();
    return status_.ok() ? std::move(status) : std::move(status_);
  }

 private:
  void look(const LinearInt8<Host>& op) {
    const auto found = sites_.find(op.weight.data);
    if (found == sites_.end() || !status_.ok()) return;
    for (index t = 0; t < op.x.extents[0]; ++t)
      for (index i = 0; i < op.x.extents[1]; ++i)
        if (!found->second->seen.add(op.x.as<float>()[t * op.x.strides[0] + i])) {
          status_ = {StatusCode::corrupt_data, "x of " + found->second->name + " has a number that is not finite"};
          return;
        }
  }

  Chain<Cpu> run_;
  std::unordered_map<const void*, Site*> sites_;  // by the weight's memory, which stays where it is
  Status status_;
};

Status check(const ModelConfig& config, std::span<const std::vector<std::int32_t>> prompts,
             const CalibrationOptions& options) {
  if (!(options.percentile > 0) || options.percentile > 100)
    return invalid("percentile is " + std::to_string(options.percentile) + "; it must be above 0, at most 100");
  if (options.chunk < 1) return invalid("chunk is " + std::to_string(options.chunk) + "; it must be at least 1");
  if (prompts.empty()) return invalid("there are no prompts; there must be at least 1");
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<index>(prompts[i].size());
    const std::string what = "prompt " + std::to_string(i + 1);
    if (length < 1 || length > config.context)
      return invalid(what + " has " + std::to_string(length) + " tokens; it must have 1.." +
                     std::to_string(config.context) + ", the context");
    for (const std::int32_t token : prompts[i])
      if (token < 0 || token >= config.vocab)
        return invalid(what + " has token " + std::to_string(token) + "; it must be in 0.." +
                       std::to_string(config.vocab - 1));
  }
  return {};
}

}  // namespace

Expected<ActivationRanges> calibrate(const ModelConfig& config, Weights weights, Cpu cpu,
                                     std::span<const std::vector<std::int32_t>> prompts,
                                     const CalibrationOptions& options) {
  if (Status status = check(config, prompts, options); !status.ok()) return failure(std::move(status));
  ActivationRanges ranges;
  ranges.model = ActivationRanges::Model::of(config, weights);
  ranges.percentile = options.percentile;

  Watching run(std::move(cpu));
  Site of_output{.name = "output", .seen = {}};
  std::vector<std::array<Site, 4>> of_layers(weights.layers.size());
  run.watch(weights.head, of_output);
  for (std::size_t i = 0; i < of_layers.size(); ++i) {
    const LayerWeights& layer = weights.layers[i];
    const auto watch = [&](const LinearWeight& weight, ActivationSite place, const char* name) {
      Site& site = of_layers[i][static_cast<std::size_t>(place)];
      site.name = std::string(name) + " in layer " + std::to_string(i);
      run.watch(weight, site);
    };
    for (const LinearWeight& each : layer.qkv) watch(each, ActivationSite::attn_in, "attn_in");
    watch(layer.output, ActivationSite::attn_output, "attn_output");
    for (const LinearWeight& each : layer.gate_up) watch(each, ActivationSite::ffn_in, "ffn_in");
    watch(layer.down, ActivationSite::ffn_down, "ffn_down");
  }
  if (!run.watches_any())
    return failure(
        unsupported("the model has no linears of int8, which alone have scales of activations; it must have "
                    "some (inlay convert --quantize int8)"));

  index longest = 0;
  for (const auto& prompt : prompts) longest = std::max(longest, static_cast<index>(prompt.size()));
  HostTensors tensors;
  auto decoder = Decoder<>::make(config, std::move(weights), std::min(options.chunk, longest), tensors);
  if (!decoder) return failure(std::move(decoder.error()));
  auto pool = KvPool<>::make(cache_shape(config, DType::f16, 16, longest), tensors);
  if (!pool) return failure(std::move(pool.error()));
  std::vector<float> logits(static_cast<std::size_t>(config.vocab));
  for (const auto& prompt : prompts) {
    Sequence text;
    Batch batch;
    for (std::span<const std::int32_t> rest = prompt; !rest.empty();) {
      const auto part = rest.first(std::min(rest.size(), static_cast<std::size_t>(options.chunk)));
      batch.clear();
      Status status = batch.add_prompt(*pool, text, part, 1);
      if (!status.ok()) return failure(std::move(status));
      decoder->forward(run, *pool, batch.views(), {logits.data(), {1, config.vocab}});
      status = run.take_status();
      if (!status.ok()) return failure(std::move(status));
      text.length += std::ssize(part);
      rest = rest.subspan(part.size());
    }
    ranges.tokens += text.length;
    pool->release(text);
  }

  for (const std::array<Site, 4>& layer : of_layers) {
    ActivationRanges::OfLayer& of_layer = ranges.layers.emplace_back();
    for (std::size_t site = 0; site < layer.size(); ++site) of_layer[site] = layer[site].seen.range(options.percentile);
  }
  ranges.output = of_output.seen.range(options.percentile);
  return ranges;
}

}  // namespace inlay::exec
