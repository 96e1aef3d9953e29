#include "npu_kernels/backend/cached_program.hpp"

#include <cstdint>

#include "tile_machine/run/memory.hpp"

namespace inlay::npu {

namespace {

constexpr std::uintptr_t top = std::uintptr_t{1} << 63, middle = std::uintptr_t{1} << 43;
constexpr int width = 44;

}  // namespace

void CallKey::start(std::string_view op) {
  key_.assign(op).push_back('\0');
  operands_.clear();
}

std::size_t CallKey::same_as(const std::byte* place, bool written) {
  std::size_t first = 0;
  while (first < operands_.size() &&
         (operands_[first].place != place || place == nullptr || !(written || operands_[first].written)))
    ++first;
  if (first < operands_.size()) first = operands_[first].same_as;
  operands_.push_back({const_cast<std::byte*>(place), written, first});
  return first;
}

std::byte* CallKey::symbol(std::size_t operand) const {
  const Operand& of = operands_[operand];
  if (of.place == nullptr) return nullptr;
  return reinterpret_cast<std::byte*>(top | (std::uintptr_t{of.same_as} + 1) << width | middle);
}

std::byte* CallKey::place(std::byte* address) const {
  if (!is_symbol(address)) return address;
  const std::uintptr_t symbol = reinterpret_cast<std::uintptr_t>(address) ^ top;
  const std::size_t operand = (symbol >> width) - 1;
  const std::uintptr_t of_operand = (std::uintptr_t{operand} + 1) << width | middle;
  return operands_[operand].place + static_cast<std::ptrdiff_t>(symbol - of_operand);
}

}  // namespace inlay::npu
