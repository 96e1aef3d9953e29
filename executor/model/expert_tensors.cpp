#include "executor/model/expert_tensors.hpp"

#include <inlay/core/quote.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"

namespace inlay::exec {

Status ExpertTensors::take(const Place& place, const std::string& path, const std::string& name,
                           const WeightTensor& tensor) {
  const auto refuse = [&](const std::string& must) {
    return Status(StatusCode::corrupt_data, path + ": the tensor " + quote(name) + " has extents " +
                                                describe_extents(tensor) + "; it must have " + must);
  };
  if (place.expert >= 0) return tensor.rank == 2 ? put_one(place, path, name, tensor) : refuse("2");
  if (tensor.rank != 3 || tensor.extents[0] != experts_)
    return refuse("3, the first one " + std::to_string(experts_) + ", the count of experts");
  if (place.part != gate_and_up) return put_all({place.layer, place.part}, path, name, tensor);
  if (tensor.extents[1] % 2 != 0) return refuse("an even second one: a gate and as wide an up");
  WeightTensor half = tensor;
  half.extents[1] /= 2, half.bytes /= 2;
  half.stride = tensor.bytes / experts_;
  if (Status status = put_all({place.layer, "ffn_gate_exps"}, path, name, half); !status) return status;
  half.data += half.stride / 2;
  return put_all({place.layer, "ffn_up_exps"}, path, name, std::move(half));
}

Status ExpertTensors::put_one(const Place& place, const std::string& path, const std::string& name,
                              const WeightTensor& tensor) {
  if (place.expert >= experts_)
    return {StatusCode::corrupt_data, path + ": the tensor " + quote(name) +
                                          " is of an expert that there is not; there are " + std::to_string(experts_)};
  const Key key{place.layer, place.part};
  if (stacked_.contains(key) || !apart_[key].emplace(place.expert, tensor).second)
    return {StatusCode::corrupt_data, path + ": two tensors for " + quote(name)};
  return {};
}

Status ExpertTensors::put_all(const Key& key, const std::string& path, const std::string& name, WeightTensor whole) {
  whole.name = block_name(key.first, key.second + ".weight");
  if (apart_.contains(key) || !stacked_.emplace(key, std::move(whole)).second)
    return {StatusCode::corrupt_data, path + ": two tensors for " + quote(name)};
  return {};
}

Expected<std::vector<WeightTensor>> ExpertTensors::tensors(const std::string& origin) const {
  std::vector<WeightTensor> all;
  for (const auto& [key, whole] : stacked_) all.push_back(whole);
  for (const auto& [key, matrices] : apart_) {
    const std::string name = block_name(key.first, key.second + ".weight");
    auto parts = std::make_shared<std::vector<WeightTensor>>();
    const WeightTensor& first = matrices.begin()->second;
    WeightTensor whole{.name = name, .type = first.type, .rank = 3};
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
    all.push_back(std::move(whole));
  }
  return all;
}

}  // namespace inlay::exec
