#include "bindings/ggml/packed_weights.hpp"

#include <cstring>

namespace inlay::ggml_binding {

namespace {

void append(AlignedBytes& all, std::size_t& at, std::size_t total, const AlignedBytes& part) {
  if (part.size() == 0) return;
  if (all.size() == 0) all = AlignedBytes(total);
  std::memcpy(all.data() + at, part.data(), part.size());
  at += part.size();
}

// What lies by panels is as long as the channels say.
void append(PackedW4& all, const std::vector<PackedW4>& parts, AlignedBytes PackedW4::*bytes) {
  std::size_t total = 0, at = 0;
  for (const PackedW4& part : parts) total += (part.*bytes).size();
  for (const PackedW4& part : parts) append(all.*bytes, at, total, part.*bytes);
}

}  // namespace

LinearW4a16<Host> PackedSlice::op(const ConstView<2>& x, const View<2>& y) const {
  return with_panels(whole->op(x, y, {}, W4Compute::int8_activations), first_panel, w4_panels(y.extents[1]));
}

Expected<PackedW4> pack(std::span<const ggml_tensor* const> weights, const Parallel& parallel) {
  std::vector<PackedW4> parts;
  const bool joined = weights.size() > 1;
  for (index expert = 0; expert < (joined ? weights[0]->ne[2] : 1); ++expert)
    for (const ggml_tensor* weight : weights) {
      const char* const data =
          static_cast<const char*>(weight->data) + static_cast<std::size_t>(expert) * weight->nb[2];
      const index n = joined ? weight->ne[1] : ggml_nrows(weight);
      auto part = import_gguf(static_cast<GgmlType>(weight->type), data, n, weight->ne[0], {}, parallel);
      if (!part) return failure(std::move(part.error()));
      parts.push_back(std::move(*part));
    }
  if (parts.size() == 1) return std::move(parts[0]);
  PackedW4 all = parts[0].without_panels();
  all.n = 0;
  for (const PackedW4& part : parts) all.n += part.n;
  for (auto bytes : PackedW4::by_panel) append(all, parts, bytes);
  return all;
}

void PackedWeights::clear() {
  const std::lock_guard lock(mutex_);
  slices_.clear();
  wholes_.clear();
}

Expected<PackedSlice> PackedWeights::made(std::span<const ggml_tensor* const> weights, const Parallel& parallel) {
  std::vector<Key> keys;
  for (const ggml_tensor* weight : weights) keys.push_back(key_of(weight));
  if (const auto found = wholes_.find(keys); found != wholes_.end()) return PackedSlice{found->second.get(), 0};
  auto packed = pack(weights, parallel);
  if (!packed) return failure(std::move(packed.error()));
  const PackedW4* const whole = (wholes_[keys] = std::make_unique<const PackedW4>(std::move(*packed))).get();
  if (keys.size() > 1 && weights[0]->ne[2] > 1) return PackedSlice{whole, 0};  // panels of experts by turns
  index panel = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys.size() > 1) wholes_.erase({keys[i]});  // what it was packed as alone
    slices_[keys[i]] = {whole, panel};
    panel += w4_panels(ggml_nrows(weights[i]));
  }
  return PackedSlice{whole, 0};
}

Expected<PackedSlice> PackedWeights::all(std::span<const ggml_tensor* const> weights, const Parallel& parallel) {
  const std::lock_guard lock(mutex_);
  return made(weights, parallel);
}

Expected<PackedSlice> PackedWeights::one(const ggml_tensor* weight, const Parallel& parallel) {
  const std::lock_guard lock(mutex_);
  if (const auto found = slices_.find(key_of(weight)); found != slices_.end()) return found->second;
  return made({&weight, 1}, parallel);
}

}  // namespace inlay::ggml_binding
