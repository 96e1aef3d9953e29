#include <utility>

#include <inlay/model/weights.hpp>

#include "executor/model/weight_source.hpp"

namespace inlay::exec {

namespace {

// The tensors of one file.
class FileSource final : public WeightSource {
 public:
  FileSource(const ModelFile& file, const Parallel& parallel) : file_(file), parallel_(parallel) {}

  Expected<LinearWeight> linear(const TensorFacts& facts) override {
    const WeightTensor* tensor = file_.find(facts.name);
    if (tensor == nullptr) return missing(facts);
    return pack_weight(parallel_, file_, *tensor);
  }

  // As f32: norms multiply f32 activations.
  Expected<ConstView<1>> vector(const TensorFacts& facts, Weights& weights) override {
    const WeightTensor* tensor = file_.find(facts.name);
    if (tensor == nullptr) return missing(facts);
    const index n = tensor->size();
    if (tensor->type == GgmlType::F32) return ConstView<1>(tensor->data, DType::f32, {n});
    auto widened = OwnedTensor<1>::make(DType::f32, {n});
    if (!widened) return failure(std::move(widened.error()));
    if (!dequantize_row(tensor->type, tensor->data, n, widened->view().as<float>()))
      return failure(StatusCode::corrupt_data, facts.name + " has a type that a vector cannot have");
    weights.vectors.push_back(std::move(*widened));
    return ConstView<1>(weights.vectors.back());
  }

  Status embedding(const TensorFacts& facts, Weights& weights) override {
    const WeightTensor* tensor = file_.find(facts.name);
    if (tensor == nullptr) return std::move(missing(facts).value());
    weights.embedding_format = tensor->type;
    if (is_quantized(tensor->type)) {
      weights.embedding = {
          tensor->data, DType::u8, {tensor->extents[0], ggml_row_bytes(tensor->type, tensor->extents[1])}};
      return {};
    }
    weights.embedding = tensor->matrix();
    if (tensor->type != GgmlType::I8) return {};
    const WeightTensor* scale = file_.scales_of(*tensor);
    if (scale == nullptr) return {StatusCode::corrupt_data, facts.name + " is I8 and has no scales"};
    weights.embedding_scale = scale->vector();
    return {};
  }

 private:
  static tl::unexpected<Status> missing(const TensorFacts& facts) {
    return failure(StatusCode::corrupt_data, "the tensor " + facts.name + " is missing");
  }

  const ModelFile& file_;
  const Parallel& parallel_;
};

}  // namespace

Expected<Weights> load_weights(std::shared_ptr<const ModelFile> file, const Parallel& parallel,
                               const std::function<void(index, index)>& progress, const RankCut& cut) {
  FileSource source(*file, parallel);
  auto weights = weights_from(source, file->config, progress, cut);
  if (weights) weights->file = std::move(file);
  return weights;
}

}  // namespace inlay::exec
