#include "executor/model/expert_tensors.hpp"

#include <cstring>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"

namespace inlay::exec {

namespace {

// A bias of all experts, [experts, n], of which each one's row is found by `row`: the rows behind one another.
template <class Row>
Status copy_rows(WeightTensor& bias, const Row& row, std::vector<std::shared_ptr<const Mapping>>& memory) {
  if (bias.bytes == 0) return {};
  auto copy = Mapping::anonymous(static_cast<std::size_t>(bias.bytes));
  if (!copy) return std::move(copy.error());
  const index experts = bias.extents[0], bytes = bias.bytes / experts;
  for (index e = 0; e < experts; ++e)
    std::memcpy((*copy)->mutable_data() + e * bytes, row(e), static_cast<std::size_t>(bytes));
  bias.data = (*copy)->data();
  bias.stride = 0, bias.parts = nullptr;
  memory.push_back(std::move(*copy));
  return {};
}

bool is_bias(const WeightTensor& whole) { return whole.rank == 2; }

}  // namespace

ExpertTensors::Key ExpertTensors::key_of(const Place& place, const std::string& part) {
  return {place.layer, part + (place.bias ? ".bias" : ".weight")};
}

Status ExpertTensors::take(const Place& place, const std::string& path, const std::string& name,
                           const WeightTensor& tensor) {
  const auto refuse = [&](const std::string& must) {
    return Status(StatusCode::corrupt_data, path + ": the tensor " + quote(name) + " has extents " +
                                                describe_extents(tensor) + "; it must have " + must);
  };
  const int rank = place.bias ? 1 : 2;
  if (place.expert >= 0) return tensor.rank == rank ? put_one(place, path, name, tensor) : refuse(std::to_string(rank));
  if (tensor.rank != rank + 1 || tensor.extents[0] != experts_)
    return refuse(std::to_string(rank + 1) + ", the first one " + std::to_string(experts_) + ", the count of experts");
  if (place.part != gate_and_up) return put_all(key_of(place, place.part), path, name, tensor);
  if (tensor.extents[1] % 2 != 0) return refuse("an even second one: a gate and as wide an up");
  WeightTensor half = tensor;
  half.extents[1] /= 2, half.bytes /= 2;
  half.stride = tensor.bytes / experts_;
  if (Status status = put_all(key_of(place, "ffn_gate_exps"), path, name, half); !status) return status;
  half.data += half.stride / 2;
  return put_all(key_of(place, "ffn_up_exps"), path, name, std::move(half));
}

Status ExpertTensors::put_one(const Place& place, const std::string& path, const std::string& name,
                              const WeightTensor& tensor) {
  if (place.expert >= experts_)
    return {StatusCode::corrupt_data, path + ": the tensor " + quote(name) +
                                          " is of an expert that there is not; there are " + std::to_string(experts_)};
  const Key key = key_of(place, place.part);
  if (stacked_.contains(key) || !apart_[key].emplace(place.expert, tensor).second)
    return {StatusCode::corrupt_data, path + ": two tensors for " + quote(name)};
  return {};
}

Status ExpertTensors::put_all(const Key& key, const std::string& path, const std::string& name, WeightTensor whole) {
  whole.name = block_name(key.first, key.second);
  if (apart_.contains(key) || !stacked_.emplace(key, std::move(whole)).second)
    return {StatusCode::corrupt_data, path + ": two tensors for " + quote(name)};
  return {};
}

// Each expert's matrix, or bias, in one tensor that points to them.
Expected<WeightTensor> ExpertTensors::together(const Key& key, const std::map<index, WeightTensor>& matrices,
                                               const std::string& origin) const {
  const std::string name = block_name(key.first, key.second);
  auto parts = std::make_shared<std::vector<WeightTensor>>();
  const WeightTensor& first = matrices.begin()->second;
  WeightTensor whole{.name = name, .type = first.type, .rank = first.rank + 1};
  whole.extents = {experts_, first.extents[0], first.extents[1]};
  for (index e = 0; e < experts_; ++e) {
    const auto each = matrices.find(e);
    if (each == matrices.end())
      return failure(StatusCode::not_found,
                     origin + ": of the tensor " + quote(name) + " expert " + std::to_string(e) + " is missing");
    const WeightTensor& matrix = each->second;
    if (matrix.type != first.type || matrix.extents != first.extents || !matrix.codes != !first.codes)
      return failure(StatusCode::corrupt_data, origin + ": of the tensor " + quote(name) + " expert " +
                                                   std::to_string(e) + " has extents " + describe_extents(matrix) +
                                                   " or a type that expert 0 has not");
    whole.bytes += matrix.bytes;
    parts->push_back(matrix);
    parts->back().name = name;
  }
  whole.parts = std::move(parts);
  return whole;
}

Expected<std::vector<WeightTensor>> ExpertTensors::tensors(const std::string& origin,
                                                           std::vector<std::shared_ptr<const Mapping>>& memory) const {
  std::vector<WeightTensor> all;
  for (const auto& [key, whole] : stacked_) {
    WeightTensor& tensor = all.emplace_back(whole);
    if (!is_bias(tensor) || tensor.stride == 0) continue;
    const auto row = [&from = whole](index e) { return from.data + e * from.stride; };
    if (Status status = copy_rows(tensor, row, memory); !status) return failure(std::move(status));
  }
  for (const auto& [key, matrices] : apart_) {
    auto tensor = together(key, matrices, origin);
    if (!tensor) return failure(std::move(tensor.error()));
    const auto row = [parts = tensor->parts](index e) { return (*parts)[static_cast<std::size_t>(e)].data; };
    if (is_bias(*tensor))
      if (Status status = copy_rows(*tensor, row, memory); !status) return failure(std::move(status));
    all.push_back(std::move(*tensor));
  }
  return all;
}

}  // namespace inlay::exec
