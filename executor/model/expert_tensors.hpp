// The tensors of a mixture's experts, put together: of each layer and part one [experts, n, k] that nobody copies.
//
//   a tensor of all      [experts, n, k]           as it is
//   gate and up in one   [experts, 2 hidden, dim]  two, which step over each other: an expert's gate lies above its up
//   one of each expert   [n, k]                    one that points to each (WeightTensor::parts)
//
// Biases come in the same three forms, without the last extent. They are vectors, which operators read as they lie:
// those that do not lie together are copied.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <inlay/model/mapped_file.hpp>
#include <inlay/model/model_file.hpp>

namespace inlay::exec {

class ExpertTensors {
 public:
  struct Place {
    index layer = 0, expert = -1;  // -1: of all
    std::string part;              // "ffn_gate_exps", or gate_and_up
    bool bias = false;
  };
  static constexpr const char* gate_and_up = "ffn_gate_up_exps";

  explicit ExpertTensors(index experts) : experts_(experts) {}
  index experts() const { return experts_; }

  // Keeps a tensor that `path` calls `name`, or refuses it.
  Status take(const Place& place, const std::string& path, const std::string& name, const WeightTensor& tensor);
  // Those of all shards, complete; `origin` names the file in messages. What is copied lives in `memory`.
  Expected<std::vector<WeightTensor>> tensors(const std::string& origin,
                                              std::vector<std::shared_ptr<const Mapping>>& memory) const;

 private:
  using Key = std::pair<index, std::string>;  // layer, and "ffn_gate_exps.weight"
  static Key key_of(const Place& place, const std::string& part);
  Status put_one(const Place& place, const std::string& path, const std::string& name, const WeightTensor& tensor);
  Status put_all(const Key& key, const std::string& path, const std::string& name, WeightTensor whole);
  Expected<WeightTensor> together(const Key& key, const std::map<index, WeightTensor>& matrices,
                                  const std::string& origin) const;

  index experts_;
  std::map<Key, std::map<index, WeightTensor>> apart_;  // by expert
  std::map<Key, WeightTensor> stacked_;
};

}  // namespace inlay::exec
