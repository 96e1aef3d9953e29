#include <iterator>
#include <utility>
#include <vector>

#include "executor/model/check_model.hpp"
#include "executor/model/expert_tensors.hpp"
#include "executor/model/family.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/latent.hpp"
#include "executor/model/gguf/model.hpp"
#include "executor/model/gguf/names.hpp"
#include "executor/model/gguf/parts.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "executor/model/split_tensors.hpp"

namespace inlay::exec {

Expected<ModelFile> load_gguf(const std::string& path) {
  auto file = GgufFile::open(path, [](const GgufFile& each) {
    Status status = check_first_gguf_part(each);
    return status ? check_gguf_architecture(each) : std::move(status);
  });
  if (!file) return failure(std::move(file.error()));
  if (Status status = join_gguf_parts(*file, path); !status) return failure(std::move(status));
  return gguf_model(*file);
}

Expected<ModelFile> gguf_model(const GgufFile& file) {
  auto config = read_gguf_config(file);
  if (!config) return failure(std::move(config.error()));
  auto vocabulary = read_gguf_vocabulary(file);
  if (!vocabulary) return failure(std::move(vocabulary.error()));
  ModelFile model;
  model.path = file.origin();
  model.config = std::move(*config);
  model.tokenizer = std::move(*vocabulary);
  const Family& family = *family_of_gguf(model.config.architecture);
  std::vector<WeightTensor> tensors;
  ExpertTensors experts(model.config.experts.count);
  for (const WeightTensor& each : file.tensors()) {
    const std::string name = gguf_tensor_name(each.name, family, model.config);
    if (ExpertTensors::Place place; experts.experts() > 0 && take_gguf_expert(name, place)) {
      if (Status status = experts.take(place, model.path, name, each); !status) return failure(std::move(status));
    } else if (!name.empty()) {
      tensors.emplace_back(each).name = name;
      flatten_head_norm(model.config, tensors.back());
    }
  }
  std::vector<std::shared_ptr<const Mapping>> memory = file.mappings();
  auto together = experts.tensors(model.path, memory);
  if (!together) return failure(std::move(together.error()));
  std::move(together->begin(), together->end(), std::back_inserter(tensors));
  if (Status status = split_tensors(model.config, model.path, tensors); !status) return failure(std::move(status));
  if (Status status = join_gguf_latent(model.config, model.path, tensors, memory); !status)
    return failure(std::move(status));
  model.set_tensors(std::move(tensors), std::move(memory));
  if (Status status = check_model(model); !status) return failure(std::move(status));
  return model;
}

}  // namespace inlay::exec
