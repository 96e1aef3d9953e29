#include <utility>
#include <vector>

#include "executor/model/check_model.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/model.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/split_tensors.hpp"

namespace inlay::exec {

Expected<ModelFile> gguf_model(const GgufFile& file) {
  auto config = read_gguf_config(file);
  if (!config) return failure(std::move(config.error()));
  auto vocabulary = read_gguf_vocabulary(file);
  if (!vocabulary) return failure(std::move(vocabulary.error()));
  ModelFile model;
  model.path = file.origin();
  model.config = std::move(*config);
  model.tokenizer = std::move(*vocabulary);
  std::vector<WeightTensor> tensors = file.tensors();
  if (Status status = split_tensors(model.config, model.path, tensors); !status) return failure(std::move(status));
  model.set_tensors(std::move(tensors), {file.mapping()});
  if (Status status = check_model(model); !status) return failure(std::move(status));
  return model;
}

}  // namespace inlay::exec
