#include <utility>

#include <inlay/model/weights.hpp>

#include "executor/model/weight_source.hpp"

namespace inlay::exec {

namespace {

// The tensors of one file.
class FileSource final : public WeightSource {
 public:
  FileSource(const ModelFile& file, const Parallel& parallel, const RankCut& cut)
      : file_(file), parallel_(parallel), cut_(cut) {}

  Expected<LinearWeight> linear(const TensorFacts& facts) override {
    const WeightTensor* tensor = file_.find(facts.name);
    if (tensor == nullptr) return missing(facts);
    const auto own = cut_.own_rows(facts);
    return pack_weight(parallel_, file_, own && has_plain_rows(*tensor) ? rows_of(*tensor, *own) : *tensor);
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

  Expected<EmbeddingTable> embedding(const TensorFacts& facts, Weights&) override {
    const WeightTensor* tensor = file_.find(facts.name);
    if (tensor == nullptr) return missing(facts);
    EmbeddingTable table{.format = tensor->type};
    if (is_quantized(tensor->type)) {
      table.rows = {tensor->data, DType::u8, {tensor->extents[0], ggml_row_bytes(tensor->type, tensor->extents[1])}};
      return table;
    }
    table.rows = tensor->matrix();
    if (tensor->type != GgmlType::I8) return table;
    const WeightTensor* scale = file_.scales_of(*tensor);
    if (scale == nullptr) return failure(StatusCode::corrupt_data, facts.name + " is I8 and has no scales");
    table.row_scale = scale->vector();
    return table;
  }

 private:
  // Rows that can be packed without the others: codes of checkpoints lie in other orders, and int8 has scales
  // elsewhere.
  static bool has_plain_rows(const WeightTensor& tensor) {
    return tensor.rank == 2 && tensor.is_contiguous() && tensor.type != GgmlType::I8;
  }
  static WeightTensor rows_of(WeightTensor tensor, const RankCut::Rows& own) {
    const index bytes = tensor.bytes / tensor.extents[0];
    tensor.extents[0] = own.count;
    tensor.data += own.first * bytes;
    tensor.bytes = own.count * bytes;
    return tensor;
  }

  static tl::unexpected<Status> missing(const TensorFacts& facts) {
    return failure(StatusCode::corrupt_data, "the tensor " + facts.name + " is missing");
  }

  const ModelFile& file_;
  const Parallel& parallel_;
  const RankCut& cut_;
};

}  // namespace

Expected<Weights> load_weights(std::shared_ptr<const ModelFile> file, const Parallel& parallel,
                               const std::function<void(index, index)>& progress, const RankCut& cut) {
  FileSource source(*file, parallel, cut);
  auto weights = weights_from(source, file->config, progress, cut);
  if (weights) weights->file = std::move(file);
  return weights;
}

}  // namespace inlay::exec
