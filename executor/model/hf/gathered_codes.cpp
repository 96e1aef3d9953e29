#include "executor/model/hf/gathered_codes.hpp"

#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"

namespace inlay::exec {

DType part_dtype(const SafetensorsFile::Raw& tensor) {
  return tensor.dtype == "F32"    ? DType::f32
         : tensor.dtype == "F16"  ? DType::f16
         : tensor.dtype == "BF16" ? DType::bf16
         : tensor.dtype == "I8"   ? DType::i8
                                  : DType::i32;
}

Status part_misfit(const std::string& path, const std::string& name, const std::string& what) {
  return {StatusCode::corrupt_data, path + ": the tensor " + quote(name) + " " + what};
}

GatheredCodes::GatheredCodes(const std::string& stem, const HfQuantizedLinear& linear,
                             std::vector<std::shared_ptr<const Mapping>>& memory)
    : stem_(stem), linear_(linear), memory_(memory) {
  parts_.reserve(linear.size() + 1);  // they are pointed to
}

void GatheredCodes::fail(const char* last, const std::string& what) {
  if (!status_.ok()) return;
  const auto found = linear_.find(last);
  status_ = part_misfit((found == linear_.end() ? linear_.begin() : found)->second.path, stem_ + "." + last, what);
}

const SafetensorsFile::Raw* GatheredCodes::part(const char* last, int rank, Kind kind) {
  if (!status_.ok()) return nullptr;
  const auto found = linear_.find(last);
  const std::string name = stem_ + "." + last;
  if (found == linear_.end()) {
    status_ = {StatusCode::not_found, linear_.begin()->second.path + ": the tensor " + quote(name) + " is missing"};
    return nullptr;
  }
  SafetensorsFile::Raw raw = found->second.tensor;
  // One without bytes may have extents that no product of words bears.
  if (raw.bytes == 0) return fail(last, "has no elements"), nullptr;
  const bool of_kind = kind == Kind::words   ? raw.dtype == "I32"
                       : kind == Kind::bytes ? raw.dtype == "I8"
                                             : raw.dtype == "F16" || raw.dtype == "BF16" || raw.dtype == "F32";
  if (raw.rank != rank || !of_kind)
    return fail(last, "is " + quote(raw.dtype) + " of rank " + std::to_string(raw.rank) + "; it must be " +
                          (kind == Kind::words   ? "I32"
                           : kind == Kind::bytes ? "I8"
                                                 : "F16, BF16 or F32") +
                          " of rank " + std::to_string(rank)),
           nullptr;
  auto data = aligned_data(raw.data, raw.bytes, sizeof(std::int32_t), memory_);
  if (!data) return status_ = std::move(data.error()), nullptr;
  raw.data = *data;
  bytes_.emplace_back(raw.data, static_cast<std::size_t>(raw.bytes));
  size_ += raw.bytes;
  parts_.push_back(raw);
  return &parts_.back();
}

ConstView<2> GatheredCodes::matrix(const char* last, Kind kind) {
  const auto* const raw = part(last, 2, kind);
  return raw == nullptr ? ConstView<2>()
                        : ConstView<2>(raw->data, part_dtype(*raw), {raw->extents[0], raw->extents[1]});
}

ConstView<1> GatheredCodes::word_list(const char* last) {
  const auto* const raw = part(last, 1, Kind::words);
  return raw == nullptr ? ConstView<1>() : ConstView<1>(raw->data, DType::i32, {raw->extents[0]});
}

Expected<WeightTensor> GatheredCodes::made(std::variant<GptqWeight, AwqWeight> weight,
                                           const std::array<index, 2>& extents, const char* maker) && {
  if (!status_.ok()) return failure(std::move(status_));
  auto codes = std::make_shared<CheckpointCodes>();
  codes->weight = std::move(weight);
  codes->extents = extents;
  codes->bytes = std::move(bytes_);
  codes->maker = maker;
  if (Status status = codes->check(); !status)
    return failure(StatusCode::corrupt_data,
                   linear_.begin()->second.path + ": " + quote(stem_) + ": " + std::string(status.message()));
  WeightTensor tensor{.name = stem_ + ".weight", .type = GgmlType::F16, .rank = 2};
  tensor.extents = {extents[0], extents[1]};
  tensor.bytes = size_;
  tensor.codes = std::move(codes);
  return tensor;
}

}  // namespace inlay::exec
