#include <inlay/exec/time/profile.hpp>

#include <cmath>
#include <cstdint>
#include <iterator>
#include <utility>

#include "files/strict_json.hpp"

namespace inlay::exec {
namespace {

using nlohmann::json;

constexpr int version = 2;  // 1: attention by rows

Status wrong(const std::string& place, const std::string& what) {
  return {StatusCode::corrupt_data, "profile: " + (place.empty() ? "the file" : place) + " " + what};
}

// A member that is there and of this type.
const json* member(const json& object, const char* key, json::value_t type) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->type() != type ? nullptr : &*found;
}

// What sizes of a kind are of.
const char* axis_of(bool by_pairs) { return by_pairs ? "pairs" : "rows"; }

bool is_count(const json& value) {
  return value.is_number_unsigned() && value.get<std::uint64_t>() - 1 < std::uint64_t{1} << 40;
}

}  // namespace

Profile::Kind Profile::kind_of(const GraphStep& step) {
  index input_bytes = 0;
  for (const Access& access : step.accesses)  // a table's rows are not the step's
    if (input_bytes == 0 && access.reads && access.field != "table")
      input_bytes = access.rows * access.span / step.rows;
  return {std::string(step.name), step.width, input_bytes, step.pairs > 0};
}

void Profile::add(const GraphStep& step, double us) {
  Mean& mean = kinds_[kind_of(step)][size_of(step)];
  ++mean.count;
  mean.us += (us - mean.us) / static_cast<double>(mean.count);
}

Expected<double> Profile::us(const Kind& kind, index size) const {
  const auto known = kinds_.find(kind);
  if (known == kinds_.end())
    return failure(StatusCode::not_found, "the profile of " + device_ + " has no " + kind.name + " of width " +
                                              std::to_string(kind.width) + " and " + std::to_string(kind.input_bytes) +
                                              " input bytes a row");
  const BySize& measured = known->second;
  auto above = measured.lower_bound(size);
  if (above == measured.begin()) return above->second.us;
  if (above == measured.end()) {
    if (measured.size() == 1)
      return measured.begin()->second.us * static_cast<double>(size) / static_cast<double>(measured.begin()->first);
    --above;
  }
  const auto below = std::prev(above);
  const double slope = (above->second.us - below->second.us) / static_cast<double>(above->first - below->first);
  const double led = below->second.us + slope * static_cast<double>(size - below->first);
  // Measurements are noisy: yet more never takes less.
  return size > above->first ? std::fmax(led, above->second.us) : led;
}

std::string Profile::json() const {
  nlohmann::json steps = nlohmann::json::array();
  for (const auto& [kind, measured] : kinds_) {
    nlohmann::json sizes = nlohmann::json::array(), us = nlohmann::json::array();
    for (const auto& [size, mean] : measured) sizes.push_back(size), us.push_back(mean.us);
    steps.push_back({{"operator", kind.name},
                     {"width", kind.width},
                     {"input_bytes", kind.input_bytes},
                     {axis_of(kind.by_pairs), std::move(sizes)},
                     {"us", std::move(us)}});
  }
  return nlohmann::json{{"profile", version}, {"device", device_}, {"steps", std::move(steps)}}.dump(1);
}

Expected<Profile> Profile::from_json(std::string_view text) {
  auto file = files::parse_strict_json(text, {.bytes = 16 << 20, .depth = 5, .values = 1 << 20});
  if (!file) return failure(std::move(file.error()));
  const auto* form = member(*file, "profile", json::value_t::number_unsigned);
  if (form == nullptr || *form != version)
    return failure(wrong("", "must have \"profile\": " + std::to_string(version)));
  const auto* device = member(*file, "device", json::value_t::string);
  if (device == nullptr) return failure(wrong("/device", "must be a name"));
  const auto* steps = member(*file, "steps", json::value_t::array);
  if (steps == nullptr) return failure(wrong("/steps", "must be a list"));
  Profile profile(device->get<std::string>());
  for (std::size_t i = 0; i < steps->size(); ++i) {
    const nlohmann::json& step = (*steps)[i];
    const std::string place = "/steps/" + std::to_string(i);
    const auto* name = member(step, "operator", json::value_t::string);
    const auto* width = member(step, "width", json::value_t::number_unsigned);
    const auto* input_bytes = member(step, "input_bytes", json::value_t::number_unsigned);
    const bool by_pairs = step.is_object() && step.contains(axis_of(true));
    const std::string axis = axis_of(by_pairs);
    const auto* sizes = member(step, axis.c_str(), json::value_t::array);
    const auto* us = member(step, "us", json::value_t::array);
    if (name == nullptr || width == nullptr || input_bytes == nullptr || sizes == nullptr || us == nullptr)
      return failure(wrong(place, "must have operator, width, input_bytes, rows or pairs, and us"));
    if (by_pairs && step.contains(axis_of(false)))
      return failure(wrong(place, "has rows and pairs; it must have one of them"));
    if (sizes->empty() || sizes->size() != us->size())
      return failure(wrong(place, "has " + std::to_string(sizes->size()) + " " + axis + " and " +
                                      std::to_string(us->size()) +
                                      " us; it must have as many of both, and one at least"));
    BySize& measured =
        profile.kinds_[{name->get<std::string>(), width->get<index>(), input_bytes->get<index>(), by_pairs}];
    if (!measured.empty()) return failure(wrong(place, "is of the same operator, width and input_bytes as another"));
    for (std::size_t at = 0; at < sizes->size(); ++at) {
      const nlohmann::json &count = (*sizes)[at], &time = (*us)[at];
      if (!is_count(count) || (at > 0 && count <= (*sizes)[at - 1]))
        return failure(wrong(place + "/" + axis + "/" + std::to_string(at),
                             "is " + files::describe(count) + "; it must be above 0 and the one before it"));
      if (!time.is_number() || !(time.get<double>() > 0))
        return failure(
            wrong(place + "/us/" + std::to_string(at), "is " + files::describe(time) + "; it must be above 0"));
      measured[count.get<index>()] = {time.get<double>(), 1};
    }
  }
  return profile;
}

}  // namespace inlay::exec
