#include "executor/model/hf/head_norms.hpp"

#include <charconv>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/names.hpp"

namespace inlay::exec {

Expected<bool> HfHeadNorms::take(const std::string& path, std::string_view name, const WeightTensor& tensor) {
  if (config_.qk_norm != QkNorm::each_head) return false;
  const std::string whole(name);
  index layer = 0, head = -1;
  if (!take_hf_layer(name, layer)) return false;
  for (const auto& [theirs, ours, heads] :
       {std::tuple{std::string_view("self_attn.q_layernorm.norms."), "attn_q_norm.weight", config_.heads},
        {std::string_view("self_attn.k_layernorm.norms."), "attn_k_norm.weight", config_.kv_heads}}) {
    if (!name.starts_with(theirs)) continue;
    const std::string_view rest = name.substr(theirs.size());
    const auto number = std::from_chars(rest.data(), rest.data() + rest.size(), head);
    if (number.ec != std::errc{} || std::string_view(number.ptr, rest.data() + rest.size()) != ".weight") return false;
    if (head < 0 || head >= heads)
      return failure(StatusCode::corrupt_data, path + ": the tensor " + quote(whole) +
                                                   " is of a head that there is not; there are " +
                                                   std::to_string(heads));
    if (tensor.rank != 1 || tensor.extents[0] != config_.head_dim)
      return failure(StatusCode::corrupt_data, path + ": the tensor " + quote(whole) + " has extents " +
                                                   describe_extents(tensor) + "; they must be [" +
                                                   std::to_string(config_.head_dim) + "]");
    if (!norms_[block_name(layer, ours)].emplace(head, tensor).second)
      return failure(StatusCode::corrupt_data, path + ": two tensors for " + quote(whole));
    return true;
  }
  return false;
}

Expected<std::vector<WeightTensor>> HfHeadNorms::tensors(const std::string& origin,
                                                         std::vector<std::shared_ptr<const Mapping>>& memory) const {
  std::vector<WeightTensor> all;
  for (const auto& [name, heads] : norms_) {
    const bool of_q = name.ends_with("attn_q_norm.weight");
    const index count = of_q ? config_.heads : config_.kv_heads, dim = config_.head_dim;
    if (static_cast<index>(heads.size()) != count)
      return failure(StatusCode::not_found, origin + ": of the tensor " + quote(name) + " there are " +
                                                std::to_string(heads.size()) + " heads; there must be " +
                                                std::to_string(count));
    WeightTensor whole{.name = name, .rank = 1, .extents = {count * dim}};
    whole.bytes = whole.size() * static_cast<index>(sizeof(float));
    auto copy = Mapping::anonymous(static_cast<std::size_t>(whole.bytes));
    if (!copy) return failure(std::move(copy.error()));
    auto* to = reinterpret_cast<float*>((*copy)->mutable_data());
    for (const auto& [head, each] : heads) dequantize_row(each.type, each.data, dim, to + head * dim);
    whole.data = (*copy)->data();
    memory.push_back(std::move(*copy));
    all.push_back(std::move(whole));
  }
  return all;
}

}  // namespace inlay::exec
