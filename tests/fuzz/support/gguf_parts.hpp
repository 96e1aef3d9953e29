// A GGUF file in parts, so that a change of one leaves the others where a reader finds them.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/quantization.hpp>

namespace inlay::fuzz {

struct GgufParts {
  struct Pair {
    std::string key;
    std::uint32_t type = 0, element = 0;
    std::uint64_t count = 0;
    std::string bytes;               // of a scalar, a string or an array of scalars
    std::vector<std::string> texts;  // of an array of strings
  };
  struct Tensor {
    std::string name;
    std::vector<std::uint64_t> extents;
    std::uint32_t type = 0;
    std::uint64_t offset = 0;
  };
  static constexpr std::uint32_t string = 8, array = 9;

  std::uint32_t version = 3;
  std::vector<Pair> pairs;
  std::vector<Tensor> tensors;
  std::string data;

  static std::size_t scalar_bytes(std::uint32_t type) {
    constexpr std::size_t table[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
    return type < std::size(table) ? table[type] : 0;
  }

  // False where the bytes are no such file.
  bool read(std::string_view from) {
    std::uint64_t tensor_count = 0, pair_count = 0;
    const std::size_t size = from.size();
    if (!from.starts_with("GGUF")) return false;
    from.remove_prefix(4);
    if (!take(from, version) || !take(from, tensor_count) || !take(from, pair_count)) return false;
    if (tensor_count > size || pair_count > size) return false;
    for (pairs.resize(pair_count); Pair & pair : pairs)
      if (!read_pair(from, pair)) return false;
    for (tensors.resize(tensor_count); Tensor & tensor : tensors) {
      std::uint32_t rank = 0;
      if (!take_text(from, tensor.name) || !take(from, rank) || rank > 8) return false;
      for (tensor.extents.resize(rank); std::uint64_t & extent : tensor.extents)
        if (!take(from, extent)) return false;
      if (!take(from, tensor.type) || !take(from, tensor.offset)) return false;
    }
    const std::size_t head = size - from.size(), begin = (head + 31) / 32 * 32;
    if (begin < size) data = from.substr(begin - head);
    return true;
  }

  std::string written() const {
    std::string to("GGUF");
    put(to, version), put(to, static_cast<std::uint64_t>(tensors.size())), put(to, std::uint64_t{pairs.size()});
    for (const Pair& pair : pairs) {
      put_text(to, pair.key), put(to, pair.type);
      if (pair.type == array) put(to, pair.element), put(to, pair.count);
      if (pair.type == string) put(to, static_cast<std::uint64_t>(pair.bytes.size()));
      to += pair.bytes;
      for (const std::string& text : pair.texts) put_text(to, text);
    }
    for (const Tensor& tensor : tensors) {
      put_text(to, tensor.name), put(to, static_cast<std::uint32_t>(tensor.extents.size()));
      for (const std::uint64_t extent : tensor.extents) put(to, extent);
      put(to, tensor.type), put(to, tensor.offset);
    }
    to.resize((to.size() + 31) / 32 * 32);
    return to + data;
  }

  // Places the tensors one behind the other, where they fit in `most` bytes, with data for all of them.
  void lay_out(std::uint64_t most) {
    std::uint64_t at = 0;
    for (Tensor& tensor : tensors) {
      std::uint64_t size = 1;
      for (const std::uint64_t extent : tensor.extents) size = extent < most ? size * extent : most;
      const auto type = static_cast<GgmlType>(tensor.type);
      if (!is_known(type) || size > most) return;
      const auto format = ggml_format(type);
      tensor.offset = at;
      at = (at + size / static_cast<std::uint64_t>(format.block) * static_cast<std::uint64_t>(format.bytes) + 31) / 32 *
           32;
      if (at > most) return;
    }
    if (data.size() < at) data.resize(at, '\x3c');  // small positive numbers, in f32 and f16
  }

 private:
  template <class T> static bool take(std::string_view& from, T& value) {
    if (from.size() < sizeof(T)) return false;
    std::memcpy(&value, from.data(), sizeof(T));
    from.remove_prefix(sizeof(T));
    return true;
  }
  static bool take_text(std::string_view& from, std::string& text) {
    std::uint64_t size = 0;
    if (!take(from, size) || size > from.size()) return false;
    text = from.substr(0, size);
    from.remove_prefix(size);
    return true;
  }
  static bool read_pair(std::string_view& from, Pair& pair) {
    if (!take_text(from, pair.key) || !take(from, pair.type)) return false;
    if (pair.type == string) return take_text(from, pair.bytes);
    std::uint64_t size = scalar_bytes(pair.type);
    if (pair.type == array) {
      if (!take(from, pair.element) || !take(from, pair.count) || pair.count > from.size()) return false;
      if (pair.element == string) {
        for (pair.texts.resize(pair.count); std::string & text : pair.texts)
          if (!take_text(from, text)) return false;
        return true;
      }
      size = pair.count * scalar_bytes(pair.element);
    }
    if (size > from.size() || (size == 0 && pair.count > 0)) return false;
    pair.bytes = from.substr(0, size);
    from.remove_prefix(size);
    return true;
  }
  template <class T> static void put(std::string& to, T value) {
    to.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  static void put_text(std::string& to, std::string_view text) {
    put(to, static_cast<std::uint64_t>(text.size()));
    to += text;
  }
};

}  // namespace inlay::fuzz
