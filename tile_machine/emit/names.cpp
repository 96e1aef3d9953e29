#include <algorithm>
#include <cctype>

#include "tile_machine/emit/statements.hpp"

namespace inlay::npu::emit {

namespace {

std::string identifier_of(std::string_view name) {
  std::string result;
  for (const char c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) != 0)
      result += c;
    else if (!result.empty() && result.back() != '_')
      result += '_';
  while (!result.empty() && result.back() == '_') result.pop_back();
  if (result.empty() || std::isdigit(static_cast<unsigned char>(result[0])) != 0) result = "number_" + result;
  return result;
}

}  // namespace

std::string type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return "float";
    case DType::f16: return "half";
    case DType::bf16: return "bfloat16_t";
    case DType::i32: return "int32_t";
    default: return {};
  }
}

Names::Names(const VerbLog& log) {
  std::map<std::tuple<std::string, bool, DType>, std::size_t> known;
  const auto see = [&](const Tensor& tensor) {
    if (tensor.buffer == none) return;
    const Buffer& buffer = log.buffers[tensor.buffer];
    if (tensor.space == Space::global) {
      globals_.try_emplace(tensor.buffer, Named{identifier_of(buffer.name), tensor.dtype, 0, buffer.bytes, 0});
      return;
    }
    const std::size_t bracket = buffer.name.find('[');
    const bool ring = bracket != buffer.name.npos;
    const auto [found, is_new] =
        known.try_emplace({buffer.name.substr(0, bracket), ring, tensor.dtype}, locals_.size());
    if (is_new)
      locals_.push_back({identifier_of(buffer.name.substr(0, bracket)) + (ring ? "_ring" : ""), tensor.dtype,
                         buffer.begin, buffer.begin + buffer.bytes, 0});
    Named& local = locals_[found->second];
    local.begin = std::min(local.begin, buffer.begin);
    local.end = std::max(local.end, buffer.begin + buffer.bytes);
    if (ring) local.slots = std::max(local.slots, static_cast<std::size_t>(buffer.name[bracket + 1] - '0') + 1);
    local_of_.try_emplace({tensor.buffer, tensor.dtype}, found->second);
  };
  for (const VerbLog::Stream& stream : log.streams)
    for (const Verb& verb : stream.verbs) {
      if (!stream.has_vector) continue;
      for (std::size_t i = 0; i < verb.count; ++i) see(verb.tensors[i]);
      if (verb.to.present()) see(verb.to.first), see(verb.from.first);
    }
  std::map<std::string, int> taken{{"memory", 1}, {"pipe", 1}, {"scratch", 1}, {"worker", 1}};  // the kernel's own
  for (Named& local : locals_)
    if (const int before = taken[local.identifier]++; before > 0) local.identifier += "_" + std::to_string(before + 1);
}

const Named& Names::of(const Tensor& tensor) const {
  if (tensor.space == Space::global) return globals_.at(tensor.buffer);
  return locals_[local_of_.at({tensor.buffer, tensor.dtype})];
}

std::vector<Named> Names::globals() const {
  std::vector<Named> result;
  for (const auto& [buffer, named] : globals_) result.push_back(named);
  return result;
}

}  // namespace inlay::npu::emit
