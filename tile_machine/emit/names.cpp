#include <algorithm>
#include <cctype>

#include "tile_machine/arithmetic/rounding.hpp"
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

// "k[1]": slot 1 of the ring "k".
struct Slot {
  std::string_view ring;
  bool of_ring = false;
  std::size_t number = 0;
};
Slot slot_of(std::string_view buffer) {
  const std::size_t bracket = buffer.find('[');
  if (bracket == buffer.npos) return {buffer};
  return {buffer.substr(0, bracket), true, static_cast<std::size_t>(buffer[bracket + 1] - '0')};
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

bool runs_on(const VerbLog::Stream& stream, CoreKind kind) {
  return kind == CoreKind::vector ? stream.has_vector : stream.has_matrix && !stream.has_vector;
}

Names::Names(const VerbLog& log, CoreKind kind) : log_(log) {
  for (const VerbLog::Stream& stream : log.streams)
    for (const Verb& verb : stream.verbs) {
      if (!runs_on(stream, kind)) continue;
      for (std::size_t i = 0; i < verb.count; ++i) see(verb.tensors[i]);
      if (verb.to.present()) see(verb.to.first), see(verb.from.first);
    }
  place_accumulators();
  // The kernel's own.
  std::map<std::string, int> taken{{"memory", 1}, {"pipe", 1}, {"scratch", 1}, {"worker", 1},
                                   {"l1", 1},     {"l0a", 1},  {"l0b", 1},     {"l0c", 1}};
  for (Named& local : locals_)
    if (const int before = taken[local.identifier]++; before > 0) local.identifier += "_" + std::to_string(before + 1);
}

void Names::see(const Tensor& tensor) {
  if (tensor.buffer == none) return;
  const Buffer& buffer = log_.buffers[tensor.buffer];
  if (tensor.space == Space::global) {
    globals_.try_emplace(tensor.buffer,
                         Named{identifier_of(buffer.name), tensor.dtype, Space::global, 0, buffer.bytes, 0, 0});
    return;
  }
  const Slot slot = slot_of(buffer.name);
  const auto [found, is_new] = known_.try_emplace({std::string(slot.ring), slot.of_ring, tensor.dtype}, locals_.size());
  if (is_new)
    locals_.push_back({identifier_of(slot.ring) + (slot.of_ring ? "_ring" : ""), tensor.dtype, tensor.space,
                       buffer.begin, buffer.begin + buffer.bytes, 0, 0});
  Named& local = locals_[found->second];
  local.begin = std::min(local.begin, buffer.begin);
  local.end = std::max(local.end, buffer.begin + buffer.bytes);
  if (slot.of_ring) local.slots = std::max(local.slots, slot.number + 1);
  if (tensor.space == Space::accumulator) {
    const index elements = round_up(tensor.rows(), fractal) * round_up(tensor.columns(), fractal);
    local.slot_bytes = std::max(local.slot_bytes, static_cast<std::uint64_t>(byte_size(tensor.dtype, elements)));
  }
  local_of_.try_emplace({tensor.buffer, tensor.dtype}, found->second);
}

// The machine's accumulators have as many rows as a sum, L0C's a multiple of sixteen: they lie one after another here.
void Names::place_accumulators() {
  std::uint64_t end = 0;
  for (Named& local : locals_) {
    if (local.space != Space::accumulator) continue;
    local.begin = end;
    end += local.slot_bytes * std::max<std::size_t>(local.slots, 1);
    local.end = end;
  }
}

const Named& Names::of(const Tensor& tensor) const {
  if (tensor.space == Space::global) return globals_.at(tensor.buffer);
  return locals_[local_of_.at({tensor.buffer, tensor.dtype})];
}

std::int64_t Names::offset_of(const Tensor& tensor) const {
  const Named& named = of(tensor);
  if (tensor.space == Space::accumulator)
    return static_cast<std::int64_t>(slot_of(log_.buffers[tensor.buffer].name).number * named.slot_bytes);
  return static_cast<std::int64_t>(tensor.begin - (tensor.space == Space::global ? 0 : named.begin));
}

}  // namespace inlay::npu::emit
