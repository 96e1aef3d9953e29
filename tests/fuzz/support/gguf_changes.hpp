// Changes that leave a GGUF file one that still loads, or almost.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>

#include "tests/fuzz/support/gguf_parts.hpp"
#include "tests/fuzz/support/json_tree.hpp"

namespace inlay::fuzz {

// Of a scalar's or an array's bytes, one value of `size` bytes.
inline void change_number(std::string& bytes, std::size_t size, std::minstd_rand& random) {
  if (size == 0 || bytes.size() < size) return;
  char* at = bytes.data() + random() % (bytes.size() / size) * size;
  std::uint64_t value = 0;
  std::memcpy(&value, at, size);
  constexpr std::uint64_t odd[] = {0,   1,        2,        3,        4,          8,          32,
                                   255, 1u << 16, 1u << 28, 1u << 31, 0x7fc00000, 0x3f800000, 0x7f800000};
  switch (random() % 4) {
    case 0: value = odd[random() % std::size(odd)]; break;
    case 1: value = value + random() % 5 - 2; break;
    case 2: value = std::uint64_t{1} << (random() % 64); break;
    default: value = ~value; break;
  }
  std::memcpy(at, &value, size);
}

inline void change_pair(GgufParts& file, std::minstd_rand& random) {
  if (file.pairs.empty()) return;
  using Pair = GgufParts::Pair;
  Pair& pair = file.pairs[random() % file.pairs.size()];
  const Pair donor = file.pairs[random() % file.pairs.size()];
  const std::size_t size = GgufParts::scalar_bytes(pair.type == GgufParts::array ? pair.element : pair.type);
  switch (random() % 10) {
    case 0: file.pairs.erase(file.pairs.begin() + (&pair - file.pairs.data())); return;
    case 1: pair.key = donor.key; return;
    case 2: pair = Pair{pair.key, donor.type, donor.element, donor.count, donor.bytes, donor.texts}; return;
    case 3: pair.key = changed_text(pair.key); return;
    case 4:
      if (pair.type < 8 || pair.type > 9) pair.type = static_cast<std::uint32_t>(random() % 13);
      return;
    default: break;
  }
  if (pair.type == GgufParts::string) pair.bytes = changed_text(pair.bytes);
  if (pair.type != GgufParts::array || random() % 2 == 0) return change_number(pair.bytes, size, random);
  // A list with an entry more, less, twice, or other.
  if (pair.element == GgufParts::string) {
    if (pair.texts.empty() || random() % 8 == 0) pair.texts.emplace_back("ab");
    std::string& text = pair.texts[random() % pair.texts.size()];
    const std::string other = pair.texts[random() % pair.texts.size()];
    switch (random() % 3) {
      case 0: text = other; break;
      case 1: text = changed_text(text); break;
      default: pair.texts.pop_back(); break;
    }
    pair.count = pair.texts.size();
  } else {
    pair.bytes.resize(pair.bytes.size() + (random() % 2 == 0 ? size : pair.bytes.size() < size ? 0 : -size));
    pair.count = size == 0 ? 0 : pair.bytes.size() / size;
  }
  if (random() % 16 == 0) pair.count = std::uint64_t{1} << (random() % 64);
}

inline void change_tensor(GgufParts& file, std::minstd_rand& random) {
  if (file.tensors.empty()) return;
  GgufParts::Tensor& tensor = file.tensors[random() % file.tensors.size()];
  const GgufParts::Tensor donor = file.tensors[random() % file.tensors.size()];
  constexpr std::uint32_t types[] = {0, 1, 30, 2, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 20, 23, 24, 39};
  switch (random() % 8) {
    case 0: file.tensors.erase(file.tensors.begin() + (&tensor - file.tensors.data())); return;
    case 1: tensor.extents = donor.extents; return;
    case 2: tensor.name = random() % 2 == 0 ? donor.name + ".scale" : changed_text(tensor.name); return;
    case 3: tensor.offset = random() % 2 == 0 ? donor.offset : std::uint64_t{1} << (random() % 64); return;
    case 4:
      if (!tensor.extents.empty())
        tensor.extents[random() % tensor.extents.size()] = std::uint64_t{1} << (random() % 64);
      return;
    case 5: file.tensors.push_back(donor); return;
    default: tensor.type = types[random() % std::size(types)]; return;
  }
}

// Up to three of them; the tensors are mostly laid out again, in data of bounded size.
inline void change_gguf(GgufParts& file, std::minstd_rand& random) {
  constexpr std::uint64_t max_data = 1 << 15;
  for (auto changes = random() % 3 + 1; changes > 0; --changes)
    random() % 3 == 0 ? change_tensor(file, random) : change_pair(file, random);
  if (random() % 8 != 0) file.lay_out(max_data);
}

}  // namespace inlay::fuzz
