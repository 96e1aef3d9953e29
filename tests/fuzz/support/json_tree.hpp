// Flipped bytes mostly break the JSON. This keeps it whole and changes values, up to three of them at once: what a
// loader does after its first error shows only then.
#pragma once

#include <cstdint>
#include <cstring>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

// The bytes' own mutation: libFuzzer's, or driver.cpp's.
extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace inlay::fuzz {

using Json = nlohmann::json;

inline void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& element : value) collect(element, all);
}

inline Json odd_value(std::minstd_rand& random) {
  static const Json values[] = {nullptr,
                                true,
                                -1,
                                0,
                                1,
                                0.5,
                                3,
                                1e300,
                                -0.0,
                                268435456,
                                2147483648u,
                                9223372036854775807,
                                18446744073709551615u,
                                "",
                                "x",
                                "global",
                                Json::array(),
                                Json::object(),
                                Json::array({1, "x"})};
  return values[random() % std::size(values)];
}

// A few of its bytes are others; what is no UTF-8 then is replaced when it is written.
inline std::string changed_text(std::string text) {
  const std::size_t size = text.size(), room = size + 16;
  text.resize(room);
  text.resize(LLVMFuzzerMutate(reinterpret_cast<std::uint8_t*>(text.data()), size, room));
  return text;
}

// Any of the values; or, since most of them stand in a few long lists, one that is walked down to.
inline Json& drawn_value(Json& root, const std::vector<Json*>& all, std::minstd_rand& random) {
  if (random() % 2 == 0) return *all[random() % all.size()];
  Json* value = &root;
  while (value->is_structured() && !value->empty() && random() % 8 != 0)
    value = &*std::next(value->begin(), static_cast<std::ptrdiff_t>(random() % value->size()));
  return *value;
}

inline void change_one_value(Json& root, std::minstd_rand& random) {
  std::vector<Json*> all;
  collect(root, all);
  Json& target = drawn_value(root, all, random);
  const Json donor = *all[random() % all.size()];
  switch (random() % 6) {
    case 0: target = odd_value(random); break;
    case 1: target = donor; break;
    case 2:  // a member or element goes
      if (target.is_array() && !target.empty()) target.erase(random() % target.size());
      if (target.is_object() && !target.empty()) target.erase(std::next(target.begin(), random() % target.size()));
      break;
    case 3:  // one comes
      if (target.is_array()) target.push_back(target.empty() ? donor : target[random() % target.size()]);
      if (target.is_object())
        target[random() % 2 == 0 ? std::string("\x01/~") : std::string(random() % 300, 'x')] = donor;
      break;
    case 4:  // a text or a key is another
      if (target.is_string()) target = changed_text(target.get<std::string>());
      if (target.is_object() && !target.empty()) {
        const auto member = std::next(target.begin(), random() % target.size());
        const std::string key = changed_text(member.key());
        Json value = std::move(member.value());
        target.erase(member);
        target[key] = std::move(value);
      }
      break;
    default:
      if (target.is_number_integer()) {
        target = target.get<std::int64_t>() / 2 + static_cast<std::int64_t>(random() % 5) - 2;
      } else if (target.is_number()) {
        target = target.get<double>() * (random() % 2 == 0 ? 2 : -0.5);
      }
      if (target.is_boolean()) target = !target.get<bool>();
  }
}

// The body of a LLVMFuzzerCustomMutator; one time in `raw` the bytes are mutated as they are.
inline std::size_t mutate_json(std::uint8_t* data, std::size_t size, std::size_t max_size, unsigned seed,
                               unsigned raw) {
  std::minstd_rand random(seed);
  Json json = random() % raw == 0 ? Json(Json::value_t::discarded) : Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  for (auto changes = random() % 3 + 1; changes > 0; --changes) change_one_value(json, random);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

}  // namespace inlay::fuzz
