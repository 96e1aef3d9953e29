#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include <inlay/model/rank_cut.hpp>

#include "executor/model/input_cut.hpp"

namespace inlay::exec {

namespace {

using Rows = RankCut::Rows;

constexpr index panel = 16;  // channels that lie together in every packed form
static_assert(panel == linear_panel && panel == linear_int8::panel && panel == w4_panel);

// Of what has something for each panel, or for each channel.
template <int Rank> Expected<OwnedTensor<Rank>> rows_of(const OwnedTensor<Rank>& whole, const Rows& own) {
  const ConstView<Rank> part = ConstView<Rank>(whole).slice(0, own.first, own.count);
  auto made = OwnedTensor<Rank>::make(part.dtype, part.extents);
  if (made && !part.empty())
    std::memcpy(made->view().data, part.data, static_cast<std::size_t>(byte_size(part.dtype, part.size())));
  return made;
}
AlignedBytes panels_of(const AlignedBytes& whole, index panels, const Rows& own) {
  const std::size_t each = whole.size() / static_cast<std::size_t>(panels);
  AlignedBytes part(each * static_cast<std::size_t>(own.count));
  if (part.size() != 0)
    std::memcpy(part.data(), whole.data() + each * static_cast<std::size_t>(own.first), part.size());
  return part;
}

Expected<LinearWeight::Form> cut(const LinearWeight::Float& whole, const Rows&, const Rows& panels) {
  auto packed = rows_of(whole.packed, panels);
  if (!packed) return failure(std::move(packed.error()));
  return LinearWeight::Float{std::move(*packed)};
}
Expected<LinearWeight::Form> cut(const LinearWeight::Int8& whole, const Rows& channels, const Rows& panels) {
  auto packed = rows_of(whole.packed, panels);
  if (!packed) return failure(std::move(packed.error()));
  auto sums = rows_of(whole.sums, channels);
  if (!sums) return failure(std::move(sums.error()));
  auto scales = rows_of(whole.scales, channels);
  if (!scales) return failure(std::move(scales.error()));
  return LinearWeight::Int8{std::move(*packed), std::move(*sums), std::move(*scales)};
}
Expected<LinearWeight::Form> cut(const PackedW4& whole, const Rows& channels, const Rows& panels) {
  PackedW4 part = whole.without_panels();
  part.n = channels.count;
  for (auto member : PackedW4::by_panel) part.*member = panels_of(whole.*member, w4_panels(whole.n), panels);
  return part;
}

Status refused(const std::string& what, int size, const std::string& must) {
  return unsupported(what + ", and there are " + std::to_string(size) + " ranks; " + must);
}

}  // namespace

Expected<RankCut> RankCut::make(const ModelConfig& config, int rank, int size, By by) {
  if (size < 1 || rank < 0 || rank >= size)
    return failure(invalid("rank is " + std::to_string(rank) + " of " + std::to_string(size) + "; it must be in 0.." +
                           std::to_string(std::max(size - 1, 0))));
  if (size == 1) return RankCut(config, rank, size, by);
  const auto is = [&](const std::string& what, const std::string& must) { return failure(refused(what, size, must)); };
  if (config.is_latent()) return is("attention is latent", "it must have keys and values of heads");
  if (config.experts.count > 0)
    return is("experts is " + std::to_string(config.experts.count), "a mixture of experts is not cut");
  if (config.layer_inputs.dim > 0)
    return is("layer_inputs is " + std::to_string(config.layer_inputs.dim), "inputs of layers are not cut");
  for (index i = 0; i < config.layers; ++i)
    if (const LayerConfig layer = config.layer(i);
        layer.head_dim != config.head_dim || layer.kv_heads != config.kv_heads || layer.kv_layer != LayerConfig::own_kv)
      return is("layer " + std::to_string(i) + " has heads of its own", "those of all layers must be alike");
  if (config.qk_norm == QkNorm::row) return is("qk_norm is row", "a norm of all heads of q as one row is not cut");
  if (config.kv_heads < size)
    return is("heads is " + std::to_string(config.heads) + ":" + std::to_string(config.kv_heads) + " (q:kv)",
              "each must have a head of k and v at least");
  if (config.head_dim % panel != 0)
    return is("head_dim is " + std::to_string(config.head_dim),
              "it must be a multiple of " + std::to_string(panel) + ", since heads are cut");
  for (index i = 0; i < config.layers; ++i)
    for (const auto& [what, channels] :
         {std::pair("dim", config.dim), {"hidden", config.layer(i).hidden}, {"vocab", config.vocab}})
      if (channels <= panel * (size - 1))
        return is(std::string(what) + " is " + std::to_string(channels),
                  "each must have " + std::to_string(panel) + " channels");
  return RankCut(config, rank, size, by);
}

ModelConfig RankCut::config() const {
  if (size_ == 1) return config_;
  ModelConfig own = config_;
  own.kv_heads = RankShares{config_.kv_heads, 1}.count(rank_, size_);
  own.heads = own.kv_heads * heads_of_group();
  own.hidden = of_hidden(config_.hidden).count(rank_, size_);
  for (LayerConfig& layer : own.per_layer) layer.hidden = of_hidden(layer.hidden).count(rank_, size_);
  return own;
}

// By rows the inputs of down are cut here, whose codes have a scale for each group of them: units are as wide as most
// groups, if ranks become about even by those.
RankShares RankCut::of_hidden(index hidden) const {
  index unit = panel;
  for (const index groups : {32, 64, 128})
    if (by_ == By::rows && hidden >= 4 * size_ * groups) unit = groups;
  return {hidden, unit};
}

bool RankCut::sums(Part part) const {
  const bool of_sum =
      part == Part::output || part == Part::output_bias || part == Part::down || part == Part::down_bias;
  return size_ > 1 && by_ == By::rows && of_sum;
}

std::optional<RankShares> RankCut::shares(const TensorFacts& tensor) const {
  if (size_ == 1 || sums(tensor.part)) return std::nullopt;
  const index dim = config_.head_dim, group = heads_of_group();
  const RankShares of_q{config_.heads * dim, group * dim}, of_k{config_.kv_heads * dim, dim};
  const bool each_head = config_.qk_norm == QkNorm::each_head;
  switch (tensor.part) {
    case Part::q:
    case Part::q_bias: return of_q;
    case Part::k:
    case Part::k_bias:
    case Part::v:
    case Part::v_bias: return of_k;
    case Part::q_norm: return each_head ? std::optional(of_q) : std::nullopt;
    case Part::k_norm: return each_head ? std::optional(of_k) : std::nullopt;
    case Part::sinks: return RankShares{config_.heads, group};
    case Part::gate:
    case Part::gate_bias:
    case Part::up:
    case Part::up_bias: return of_hidden(config_.layer(tensor.layer).hidden);
    case Part::output:
    case Part::output_bias:
    case Part::down:
    case Part::down_bias: return RankShares{config_.dim, panel};
    case Part::head:
    case Part::head_bias: return RankShares{config_.vocab, panel};
    default: return std::nullopt;
  }
}

std::optional<RankCut::Rows> RankCut::own_rows(const TensorFacts& tensor) const {
  const auto of_all = shares(tensor);
  if (!of_all) return std::nullopt;
  return Rows{of_all->begin(rank_, size_), of_all->count(rank_, size_)};
}

std::optional<RankShares> RankCut::inputs(const TensorFacts& tensor) const {
  if (size_ == 1) return std::nullopt;
  if (tensor.part == Part::output)
    return RankShares{config_.heads * config_.value_dim(), heads_of_group() * config_.value_dim()};
  if (tensor.part == Part::down) return of_hidden(config_.layer(tensor.layer).hidden);
  return std::nullopt;
}

Expected<LinearWeight> RankCut::own(const TensorFacts& tensor, LinearWeight weight) const {
  const auto of_inputs = inputs(tensor);
  if (sums(tensor.part)) {
    const InputRange own{of_inputs->begin(rank_, size_), of_inputs->count(rank_, size_), of_inputs->columns};
    auto part = inputs_of(weight, own, tensor.name);
    if (part) part->x_of = *of_inputs, part->sums = true;
    return part;
  }
  const auto of_all = shares(tensor);
  if (!of_all) return weight;
  if (weight.channels() == of_all->columns) {
    const Rows own = *own_rows(tensor), panels{own.first / panel, (own.count + panel - 1) / panel};
    auto form = std::visit([&](const auto& whole) { return cut(whole, own, panels); }, weight.form());
    if (!form) return failure(std::move(form.error()));
    weight = LinearWeight(own.count, std::move(*form));
  }
  if (of_inputs) weight.x_of = *of_inputs;
  if (of_inputs || tensor.part == Part::head) weight.y_of = *of_all;
  return weight;
}

ConstView<1> RankCut::own(const TensorFacts& tensor, const ConstView<1>& vector) const {
  if (sums(tensor.part) && rank_ != 0) return {};
  const auto rows = own_rows(tensor);
  return rows ? vector.slice(0, rows->first, rows->count) : vector;
}

}  // namespace inlay::exec
