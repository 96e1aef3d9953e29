#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <set>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/model/checkpoint_codes.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/family.hpp"
#include "executor/model/hf/config.hpp"
#include "executor/model/hf/experts.hpp"
#include "executor/model/hf/head_norms.hpp"
#include "executor/model/hf/index.hpp"
#include "executor/model/hf/interleaved_experts.hpp"
#include "executor/model/hf/model.hpp"
#include "executor/model/hf/names.hpp"
#include "executor/model/hf/quantization.hpp"
#include "executor/model/hf/safetensors.hpp"
#include "executor/model/hf/tokenizer.hpp"
#include "executor/model/hf/xielu.hpp"
#include "executor/model/split_tensors.hpp"

namespace inlay::exec {

namespace {

// InternLM2 stores, for each kv head, its query heads, its key and its value one after the other:
//
//   wqkv [kv_heads][group + 2][head_dim][dim]      rows  q0 .. q(group-1) k v | q .. k v | ...
constexpr std::string_view fused_name = "attn_qkv_by_kv_head";

Status split_qkv(const ModelConfig& c, const std::string& origin, const WeightTensor& fused,
                 std::vector<WeightTensor>& tensors, std::vector<std::shared_ptr<const Mapping>>& memory) {
  const index group = c.heads / c.kv_heads;
  const index rows = (group + 2) * c.kv_heads * c.head_dim;
  if (fused.codes)
    return {StatusCode::unsupported, origin + ": the fused tensor " + quote(fused.name) + " is " +
                                         fused.codes->format() + "; it must be F32, F16 or BF16"};
  if (fused.extents[0] != rows)
    return {StatusCode::corrupt_data, origin + ": the fused tensor " + quote(fused.name) + " has extents " +
                                          describe_extents(fused) + "; it must have " + std::to_string(rows) + " rows"};
  const index head_bytes = fused.bytes / rows * c.head_dim;
  auto copy = Mapping::anonymous(static_cast<std::size_t>(fused.bytes));
  if (!copy) return std::move(copy.error());
  std::byte* to = (*copy)->mutable_data();
  const std::string stem = fused.name.substr(0, fused.name.find(fused_name));
  const std::string kind = fused.name.substr(stem.size() + fused_name.size());
  const std::pair<const char*, std::pair<index, index>> parts[] = {
      {"attn_q", {0, group}}, {"attn_k", {group, 1}}, {"attn_v", {group + 1, 1}}};  // first head, heads
  for (const auto& [part, span] : parts) {
    WeightTensor tensor = fused;
    tensor.name = stem + part + kind;
    tensor.extents[0] = c.kv_heads * span.second * c.head_dim;
    tensor.bytes = c.kv_heads * span.second * head_bytes;
    tensor.data = to;
    for (index g = 0; g < c.kv_heads; ++g, to += span.second * head_bytes)
      std::memcpy(to, fused.data + (g * (group + 2) + span.first) * head_bytes,
                  static_cast<std::size_t>(span.second * head_bytes));
    tensors.push_back(std::move(tensor));
  }
  drop_pages(fused.data, static_cast<std::size_t>(fused.bytes));
  memory.push_back(std::move(*copy));
  return {};
}

// A tensor of floats as its file has it.
SafetensorsFile::Raw raw(const WeightTensor& tensor) {
  return {std::string(ggml_format(tensor.type).name), tensor.rank, tensor.extents, tensor.data, tensor.bytes};
}

class HfLoader {
 public:
  explicit HfLoader(std::filesystem::path directory) : directory_(std::move(directory)) {}

  Expected<ModelFile> run(const std::string& single) {
    const std::string config_path = (directory_ / "config.json").string();
    auto document = read_json(config_path);
    if (!document) return failure(std::move(document.error()));
    auto config = hf_config(document->root(), config_path);
    if (!config) return failure(std::move(config.error()));
    model_.path = directory_.string();
    model_.config = std::move(*config);
    family_ = family_of_hf(model_.config.architecture);
    auto quantization = read_quantization(document->root(), config_path);
    if (!quantization) return failure(std::move(quantization.error()));
    quantized_ = HfQuantizedParts(*quantization);
    if (family_->mixture.interleaved) interleaved_ = HfInterleavedExperts(model_.config);
    experts_ = ExpertTensors(model_.config.experts.count);
    head_norms_ = HfHeadNorms(model_.config);
    if (Status status = read_shards(single); !status) return failure(std::move(status));
    auto linears = quantized_.tensors(memory_);
    if (!linears) return failure(std::move(linears.error()));
    for (WeightTensor& each : *linears) {
      const std::string name = each.name;
      if (Status status = add(config_path, name, std::move(each)); !status) return failure(std::move(status));
    }
    if (Status status = gather(experts_.tensors(config_path, memory_)); !status) return failure(std::move(status));
    if (Status status = gather(interleaved_.tensors(memory_)); !status) return failure(std::move(status));
    if (Status status = gather(head_norms_.tensors(config_path, memory_)); !status) return failure(std::move(status));
    if (Status status = xielu_.apply(config_path, model_.config); !status) return failure(std::move(status));
    if (Status status = split_tensors(model_.config, config_path, tensors_); !status) return failure(std::move(status));
    settle_head();
    if (family_->norm_adds_one)
      if (Status status = add_one_to_norms(); !status) return failure(std::move(status));
    model_.set_tensors(std::move(tensors_), std::move(memory_));
    // The tensors first: ids may be as large as the embedding has rows, and only they say that it has them.
    if (Status status = check_model(model_); !status) return failure(std::move(status));
    auto tokenizer = hf_tokenizer(directory_, document->root(), model_.config.vocab);
    if (!tokenizer) return failure(std::move(tokenizer.error()));
    model_.tokenizer = std::move(*tokenizer);
    if (Status status = check_vocabulary(model_); !status) return failure(std::move(status));
    return std::move(model_);
  }

 private:
  // Tensors that were put together, in a form of their own: the same ones may lie there in another.
  Status gather(Expected<std::vector<WeightTensor>> made) {
    if (!made) return std::move(made.error());
    for (WeightTensor& each : *made) {
      if (!names_.insert(each.name).second)
        return {StatusCode::corrupt_data, model_.path + ": two tensors for " + quote(each.name)};
      tensors_.push_back(std::move(each));
    }
    return {};
  }

  // In config.json, at the model of text too; older writers have a file of their own.
  Expected<HfQuantization> read_quantization(const Json& config, const std::string& config_path) {
    for (const Json& place : {config, config.find("text_config")})
      if (const Json said = place.is_object() ? place.find("quantization_config") : Json(); said.is_object())
        return hf_quantization(said, config_path + ": quantization_config");
    for (const char* name : {"quantize_config.json", "quant_config.json"}) {
      const std::string path = (directory_ / name).string();
      std::error_code error;
      if (!std::filesystem::exists(path, error)) continue;
      auto document = read_json(path);
      if (!document) return failure(std::move(document.error()));
      return hf_quantization(document->root(), path);
    }
    return HfQuantization{};
  }

  Status read_shards(const std::string& single) {
    const std::filesystem::path list = directory_ / "model.safetensors.index.json";
    std::error_code error;
    if (!single.empty() || !std::filesystem::exists(list, error))
      return read_shard(single.empty() ? "model.safetensors" : single, {}, {});
    auto index = HfIndex::read(list.string());
    if (!index) return std::move(index.error());
    for (std::span<const HfIndex::Place> rest = index->places(); !rest.empty();) {
      const std::string shard(rest.front().shard);
      const auto end = std::find_if(rest.begin(), rest.end(), [&](const auto& each) { return each.shard != shard; });
      const auto expected = rest.first(static_cast<std::size_t>(end - rest.begin()));
      if (Status status = read_shard(shard, *index, expected); !status) return status;
      rest = rest.subspan(expected.size());
    }
    return {};
  }

  // `expected`: what the index has in this one. It is of nothing where there is none.
  Status read_shard(const std::string& name, const HfIndex& index, std::span<const HfIndex::Place> expected) {
    auto file = open_safetensors((directory_ / name).string());
    if (!file) return std::move(file.error());
    memory_.push_back(file->mapping);
    for (const HfIndex::Place& each : expected)
      if (const std::string wanted(each.tensor);
          !file->tensors.contains(wanted) && !file->other_dtypes.contains(wanted))
        return {StatusCode::not_found, file->path + ": the tensor " + quote(wanted) + " of the index is missing"};
    const auto elsewhere = [&](const std::string& each) {
      const std::string_view shard = index.shard_of(each);
      return !shard.empty() && shard != name;
    };
    for (const auto& [each, tensor] : file->tensors)
      if (!elsewhere(each) && !quantized_.take(each, *file, raw(tensor)) &&
          !interleaved_.take(each, *file, raw(tensor)))
        if (Status status = add(file->path, each, tensor); !status) return status;
    for (const auto& [each, other] : file->other_dtypes)
      if (!elsewhere(each) && !is_needless(each) && !is_of_another_modality(each) &&
          !quantized_.take(each, *file, other) && !interleaved_.take(each, *file, other) && other.bytes > 0)
        return {StatusCode::unsupported, file->path + ": the tensor " + quote(each) + " has the dtype " +
                                             quote(other.dtype) + "; it must be F32, F16 or BF16"};
    return {};
  }

  // A model that is said to tie its head to the embedding may store it a second time: that copy goes. One that differs
  // was trained by itself: it is the head, as transformers has it, whatever the configuration says.
  void settle_head() {
    const auto of = [&](std::string_view name) {
      return std::find_if(tensors_.begin(), tensors_.end(), [&](const auto& each) { return each.name == name; });
    };
    const auto head = of("output.weight"), embedding = of("token_embd.weight");
    if (!model_.config.tie_embeddings || head == tensors_.end() || embedding == tensors_.end()) return;
    const bool same = !head->codes && head->type == embedding->type && head->bytes == embedding->bytes &&
                      head->extents == embedding->extents &&
                      std::memcmp(head->data, embedding->data, static_cast<std::size_t>(head->bytes)) == 0;
    if (same)
      tensors_.erase(head);
    else
      model_.config.tie_embeddings = false;
  }

  // Gemma's norms multiply by 1 + w. GGUF has the sum, and so has the model.
  Status add_one_to_norms() {
    const auto is_norm = [](const WeightTensor& each) { return each.rank == 1 && each.name.ends_with("norm.weight"); };
    index count = 0;
    for (const WeightTensor& each : tensors_) count += is_norm(each) ? each.size() : 0;
    auto memory = Mapping::anonymous(static_cast<std::size_t>(count) * sizeof(float));
    if (!memory) return std::move(memory.error());
    auto* to = reinterpret_cast<float*>((*memory)->mutable_data());
    for (WeightTensor& each : tensors_) {
      if (!is_norm(each)) continue;
      dequantize_row(each.type, each.data, each.size(), to);
      for (index i = 0; i < each.size(); ++i) to[i] += 1;
      each.type = GgmlType::F32, each.bytes = each.size() * static_cast<index>(sizeof(float));
      each.data = reinterpret_cast<const std::byte*>(to);
      to += each.size();
    }
    memory_.push_back(std::move(*memory));
    return {};
  }

  // Of a layer behind the last, which no text passes?
  bool is_of_more_layers(std::string_view name) const {
    index layer = 0;
    if (family_->more_layers && name.starts_with("model.mtp_")) return true;  // as ERNIE 4.5 calls them
    return family_->more_layers && take_hf_layer(name, layer) && layer >= model_.config.layers;
  }

  Status align(WeightTensor& tensor) {
    if (tensor.codes) return {};
    const auto data =
        aligned_data(tensor.data, tensor.bytes, static_cast<std::size_t>(ggml_format(tensor.type).bytes), memory_);
    if (!data) return {data.error().code(), data.error().message()};
    tensor.data = *data;
    return {};
  }

  Status add(const std::string& path, const std::string& name, WeightTensor tensor) {
    if (is_needless(name) || is_of_another_modality(name) || is_of_more_layers(name)) return {};
    if (Status status = align(tensor); !status) return status;
    if (ExpertTensors::Place place; experts_.experts() > 0 && take_hf_expert(name, place))
      return experts_.take(place, path, name, tensor);
    if (auto taken = head_norms_.take(path, name, tensor); !taken)
      return std::move(taken.error());
    else if (*taken)
      return {};
    if (auto taken = xielu_.take(path, name, tensor); !taken)
      return std::move(taken.error());
    else if (*taken)
      return {};
    const auto ours = gguf_name(name, *family_);
    if (!ours && tensor.size() == 0) return {};
    if (!ours)
      return {StatusCode::unsupported, path + ": the tensor " + quote(name) + " of extents " +
                                           describe_extents(tensor) + " has no place in a model of the architecture " +
                                           quote(model_.config.architecture) +
                                           "; leaving it out would change what it computes"};
    tensor.name = *ours;
    if (const std::size_t at = tensor.name.find("_shexp.");
        family_->mixture.shared_is_dense && model_.config.experts.count == 0 && at != std::string::npos)
      tensor.name.erase(at, std::strlen("_shexp"));
    if (!names_.insert(*ours).second) return {StatusCode::corrupt_data, path + ": two tensors for " + quote(*ours)};
    if (tensor.bytes > 0 && tensor.name.find(fused_name) != std::string::npos)
      return split_qkv(model_.config, path, tensor, tensors_, memory_);
    // A row of one matrix, which is a vector to us.
    if (tensor.rank == 2 && tensor.extents[0] == 1 &&
        (tensor.name.ends_with("ffn_gate_inp_shexp.weight") || tensor.name.ends_with("exp_probs_b.bias")))
      tensor.rank = 1, tensor.extents = {tensor.extents[1]};
    flatten_head_norm(model_.config, tensor);
    tensors_.push_back(std::move(tensor));
    return {};
  }

  std::filesystem::path directory_;
  ModelFile model_;
  const Family* family_ = nullptr;
  HfQuantizedParts quantized_{HfQuantization{}};
  ExpertTensors experts_{0};
  HfInterleavedExperts interleaved_;
  HfHeadNorms head_norms_;
  HfXielu xielu_;
  std::vector<WeightTensor> tensors_;
  std::set<std::string> names_;  // of ours, the fused ones before they are split
  std::vector<std::shared_ptr<const Mapping>> memory_;
};

}  // namespace

Expected<ModelFile> hf_model(const std::string& path) {
  const std::filesystem::path place(path);
  std::error_code error;
  if (std::filesystem::is_directory(place, error)) return HfLoader(place).run("");
  return HfLoader(place.has_parent_path() ? place.parent_path() : ".").run(place.filename().string());
}

}  // namespace inlay::exec
