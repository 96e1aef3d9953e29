#include <algorithm>
#include <utility>

#include <inlay/model/checkpoint_codes.hpp>

namespace inlay::exec {

namespace {

index channels_of_word(const CheckpointCodes& codes) {
  const auto* gptq = std::get_if<GptqWeight>(&codes.weight);
  return gptq != nullptr ? 32 / gptq->bits : 8;
}

// Only the views: of channels that begin and end with words.
CheckpointCodes slice(const CheckpointCodes& whole, index first, index rows) {
  CheckpointCodes part = whole;
  part.extents[0] = rows;
  const index per_word = channels_of_word(whole), words = (rows + per_word - 1) / per_word;
  if (auto* gptq = std::get_if<GptqWeight>(&part.weight)) {
    gptq->qweight = gptq->qweight.slice(1, first, rows);
    gptq->qzeros = gptq->qzeros.slice(1, first / per_word, words);
    gptq->scales = gptq->scales.slice(1, first, rows);
  } else {
    auto& awq = std::get<AwqWeight>(part.weight);
    awq.qweight = awq.qweight.slice(1, first / per_word, words);
    awq.qzeros = awq.qzeros.slice(1, first / per_word, words);
    awq.scales = awq.scales.slice(1, first, rows);
  }
  return part;
}

}  // namespace

std::string CheckpointCodes::format() const {
  const auto* gptq = std::get_if<GptqWeight>(&weight);
  return std::string(maker) + ", " + std::to_string(gptq != nullptr ? gptq->bits : 4) + " bits";
}

Status CheckpointCodes::check() const {
  return std::visit([](const auto& each) { return inlay::check(each); }, weight);
}

Expected<PackedW4> CheckpointCodes::packed(const Parallel& parallel) const {
  if (const auto* gptq = std::get_if<GptqWeight>(&weight)) return import_gptq(*gptq, parallel);
  return import_awq(std::get<AwqWeight>(weight), parallel);
}

Expected<CheckpointCodes> CheckpointCodes::sliced(index first, index rows) const {
  const index per_word = channels_of_word(*this);
  if (first % per_word != 0 || (rows % per_word != 0 && first + rows != extents[0]))
    return failure(StatusCode::unsupported, "channels " + std::to_string(first) + " to " +
                                                std::to_string(first + rows) + " of a fused tensor in " + format() +
                                                ": they must begin and end at a multiple of " +
                                                std::to_string(per_word));
  return slice(*this, first, rows);
}

Status CheckpointCodes::read_row(index row, float* out) const {
  const index per_word = channels_of_word(*this), first = row / per_word * per_word;
  auto some = slice(*this, first, std::min(per_word, extents[0] - first)).packed();
  if (!some) return std::move(some.error());
  some->unpack(row - first, out);
  return {};
}

}  // namespace inlay::exec
