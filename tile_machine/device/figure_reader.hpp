// Reads figures out of JSON: each is a pair [number, "<source>"], so that no number stands without its
// provenance. Every reading checks the kind and the range of its value; the first error stays and names
// the key by its JSON pointer, its value and what it must be.
#pragma once

#include <array>
#include <cstddef>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "files/strict_json.hpp"
#include "tile_machine/device/device.hpp"

namespace inlay::npu {

using files::child, files::describe;

// A value and where it stands. One that could not be read is null, and reads as nothing.
struct Node {
  const nlohmann::json* json = nullptr;
  std::string pointer;
};

struct Range {
  double low, high;
  bool whole = false, power_of_two = false;
};

inline constexpr std::size_t longest_name = 64, longest_text = 1000;  // bytes

using Words = std::span<const std::string_view>;
std::string listed(Words words);  // "a, b, c"
template <class Enum, int n> constexpr auto names() {
  std::array<std::string_view, n> result{};
  for (int i = 0; i < n; ++i) result[i] = name(static_cast<Enum>(i));
  return result;
}
std::string shown(double number);  // as in JSON, without ".0"

class FigureReader {
 public:
  bool ok() const { return status_.ok(); }
  Status take_status() { return std::move(status_); }
  std::vector<Provenance> take_provenance() { return std::move(provenance_); }

  void refuse(const std::string& pointer, const std::string& what);
  void refuse_value(const Node& node, const std::string& must);

  // Structure. An object has exactly these keys, or some of them; a list has 1 to `most` elements.
  Node object(Node node, Words keys);
  Node object(Node node, std::initializer_list<std::string_view> keys) {
    return object(std::move(node), Words(keys.begin(), keys.size()));
  }
  Node some_of(Node node, Words keys);
  // Has the object this key, which may be left out?
  bool has(const Node& parent, std::string_view key) const {
    return ok() && parent.json != nullptr && parent.json->contains(key);
  }
  Node get(const Node& parent, std::string_view key) const;
  template <class F> void list(const Node& node, std::size_t most, F each) {
    const std::size_t size = list_size(node, most);
    for (std::size_t i = 0; ok() && i < size; ++i) each(Node{&(*node.json)[i], child(node.pointer, i)});
  }

  // Values.
  std::string text(const Node& node, std::size_t longest);
  std::string identifier(const Node& node);
  bool boolean(const Node& node);
  int choice(const Node& node, Words words);
  double figure(const Node& node, const Range& range);
  template <class T> void figure(const Node& parent, std::string_view key, const Range& range, T& out) {
    const double value = figure(get(parent, key), range);
    if (ok()) out = static_cast<T>(value);
  }

  // Of a section that may be null: false, and nothing is read.
  bool present(const Node& node) const { return ok() && node.json != nullptr && !node.json->is_null(); }

  // The table of sources, read before the first figure; each must be named by one.
  void sources(const Node& node);
  void refuse_unused_sources(const Node& node);

 private:
  std::size_t list_size(const Node& node, std::size_t most);
  std::pair<double, double> factors(const Node& node);

  struct Source {
    std::string key, text, confidence;
    double low = 1, high = 1;
    bool used = false;
  };

  Status status_;
  std::vector<Source> sources_;
  std::vector<Provenance> provenance_;
};

}  // namespace inlay::npu
