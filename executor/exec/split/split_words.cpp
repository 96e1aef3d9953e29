#include <inlay/exec/split/split_words.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <string>

namespace inlay::exec {
namespace {

constexpr Cut cuts[] = {Cut::rows, Cut::sequence, Cut::multi_sequence, Cut::hybrid};

// So many of all, and both have some; 0, where there are too few for that.
index some_of(index all, double share, index grain) {
  const index most = (all - 1) / grain * grain;
  if (most == 0) return 0;
  const auto wanted = static_cast<index>(std::llround(share * static_cast<double>(all) / static_cast<double>(grain)));
  return std::clamp(wanted * grain, grain, most);
}

// Powers of two, the largest first.
std::vector<index> passes_of(index tokens) {
  std::vector<index> passes;
  while (tokens > 0) {
    passes.push_back(static_cast<index>(std::bit_floor(static_cast<std::uint64_t>(tokens))));
    tokens -= passes.back();
  }
  return passes;
}

}  // namespace

Expected<SplitWords> SplitWords::parse(std::string_view words) {
  SplitWords split;
  if (words.empty() || words == "none") return split;
  const std::size_t colon = words.find(':');
  const auto known =
      std::find_if(std::begin(cuts), std::end(cuts), [&](Cut cut) { return name(cut) == words.substr(0, colon); });
  if (known == std::end(cuts))
    return failure(invalid("split is '" + std::string(words) +
                           "'; it must be none, rows, sequence, multi-sequence or hybrid, with :SHARE or without"));
  split.cut_ = *known;
  if (colon == words.npos) return split;
  const std::string_view share = words.substr(colon + 1);
  const auto [end, error] = std::from_chars(share.data(), share.data() + share.size(), split.share_);
  if (error != std::errc() || end != share.data() + share.size() || !(split.share_ > 0 && split.share_ < 1))
    return failure(invalid("split has the share '" + std::string(share) + "'; it must be above 0 and below 1"));
  return split;
}

LinearSplit SplitWords::of(const LinearShape& shape) const {
  const LinearSplit whole{.cut = Cut::npu_only, .npu_outputs = shape.outputs, .npu_passes = {shape.tokens}};
  const double each = cut_ == Cut::hybrid ? std::sqrt(share_) : share_;
  const index channels = some_of(shape.outputs, each, channel_panel), tokens = some_of(shape.tokens, each, 1);
  const bool by_channels = cut_ == Cut::rows || cut_ == Cut::hybrid, by_tokens = cut_ != Cut::rows;
  if (cut_ == Cut::npu_only || (by_channels && channels == 0) || (by_tokens && tokens == 0)) return whole;
  LinearSplit split = whole;
  split.cut = cut_;
  if (by_channels) split.npu_outputs = channels;
  if (by_tokens) split.npu_passes = cut_ == Cut::multi_sequence ? passes_of(tokens) : std::vector<index>{tokens};
  return split;
}

std::vector<PlacedPart> parts_of(const LinearSplit& split, const LinearShape& shape, std::size_t gpu, std::size_t npu) {
  std::vector<PlacedPart> parts;
  const auto add = [&](const LinearPart& part, std::size_t device) {
    if (part.elements() > 0) parts.push_back({part, device});
  };
  index token = 0;
  for (const index pass : split.npu_passes) {
    const index tokens = std::min(pass, shape.tokens - token);
    add({.token = token, .tokens = tokens, .channel = 0, .channels = split.npu_outputs}, npu);
    token += tokens;
  }
  add({.token = 0, .tokens = token, .channel = split.npu_outputs, .channels = shape.outputs - split.npu_outputs}, gpu);
  add({.token = token, .tokens = shape.tokens - token, .channel = 0, .channels = shape.outputs}, gpu);
  return parts;
}

}  // namespace inlay::exec
