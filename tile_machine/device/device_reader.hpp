// The reader of a device description; device_json.cpp tells the schema and reads what is not below.
//
//   device_layout.cpp   memories, queues, streams and paths: what lies where, and how it moves
//   device_units.cpp    the matrix and the vector unit
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "tile_machine/device/figure_reader.hpp"

namespace inlay::npu {

class DeviceReader : private FigureReader {
 public:
  explicit DeviceReader(Device& device) : device_(device) {}

  Status read(const nlohmann::json& root);

 private:
  // Figures that several parts have.
  static constexpr Range alignment{1, 4096, true, true};
  static constexpr Range rate{0x1p-20, 0x1p20, false};  // cycles per step: never zero
  // Bytes per cycle. A transfer moves no fewer than 2^-18 (time/cost.hpp): those of a core, 256 at most in its queues
  // and streams, share this where an estimate leaves them a quarter.
  static constexpr Range bandwidth{0x1p-8, 0x1p20, false};
  static constexpr Range cycles{0, 0x1p20, false};
  static constexpr Range tile{1, 1024, true};
  static constexpr Range flag_count{1, 1024, true};

  template <class Named> std::uint8_t reference(const Node& node, const std::vector<Named>& table, const char* plural);
  // A name that no other entry of the table has.
  template <class Named>
  void unlike_others(const Node& node, const std::string& value, const std::vector<Named>& table, const char* plural);
  template <class Named, class Roles>
  void each_has_role(const std::vector<Named>& table, const Roles& entry_of, const char* list, const char* must);
  DType dtype(const Node& node) { return static_cast<DType>(choice(node, names<DType, dtype_count>())); }

  void global_memory(const Node& root);
  void memories(const Node& root);
  Relayout relayout(const Node& node);
  void queues(const Node& root);
  void streams(const Node& section);
  void owned_once(const Node& section);
  void paths(const Node& list_node);
  void needed_moves(const std::string& pointer);
  void matrix(const Node& section);
  void vector(const Node& section);
  void rest(const Node& root);

  Device& device_;
};

template <class Named>
std::uint8_t DeviceReader::reference(const Node& node, const std::vector<Named>& table, const char* plural) {
  const std::string value = text(node, longest_name);
  if (!ok()) return 0;
  const auto found = std::find_if(table.begin(), table.end(), [&](const Named& entry) { return entry.name == value; });
  if (found == table.end()) refuse_value(node, std::string("the name of one of ") + plural);
  return ok() ? static_cast<std::uint8_t>(found - table.begin()) : std::uint8_t{0};
}

template <class Named>
void DeviceReader::unlike_others(const Node& node, const std::string& value, const std::vector<Named>& table,
                                 const char* plural) {
  for (const Named& other : table)
    if (other.name == value) refuse_value(node, std::string("unlike the other ") + plural + "' names");
}

template <class Named, class Roles>
void DeviceReader::each_has_role(const std::vector<Named>& table, const Roles& entry_of, const char* list,
                                 const char* must) {
  for (std::size_t i = 0; ok() && i < table.size(); ++i)
    if (std::count(entry_of.begin(), entry_of.end(), i) == 0)
      refuse(child(child("", list), i), "is " + table[i].name + ": " + must);
}

}  // namespace inlay::npu
