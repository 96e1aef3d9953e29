#include <inlay/exec/split/device_list.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <utility>

#include "files/strict_json.hpp"

namespace inlay::exec {
namespace {

using files::child;
using nlohmann::json;

constexpr std::size_t max_devices = 16;
constexpr std::string_view kinds[] = {"cpu", "gpu", "npu"};

Status wrong(const std::string& place, const std::string& what) {
  return {StatusCode::corrupt_data, "devices: " + (place.empty() ? "the file" : place) + " " + what};
}

// Reads members, and keeps the first error.
class Reader {
 public:
  // It is an object that has these keys alone.
  bool object(const json& value, const std::string& place, std::initializer_list<std::string_view> keys) {
    if (!value.is_object()) return refuse(place, "is " + files::describe(value) + "; it must be an object");
    for (const auto& [key, member] : value.items())
      if (std::find(keys.begin(), keys.end(), key) == keys.end()) {
        std::string known;
        for (const std::string_view each : keys) known += (known.empty() ? "" : ", ") + std::string(each);
        return refuse(child(place, key), "is no key; it must be one of " + known);
      }
    return true;
  }
  double number(const json& object, const std::string& place, const char* key, bool above_0, bool needed) {
    const auto found = object.find(key);
    const std::string must = above_0 ? "a number above 0" : "a number, 0 or more";
    if (found == object.end()) {
      if (needed) refuse(child(place, key), "is missing; it must be " + must);
      return 0;
    }
    const bool fits = found->is_number() && (above_0 ? found->get<double>() > 0 : found->get<double>() >= 0);
    if (!fits) refuse(child(place, key), "is " + files::describe(*found) + "; it must be " + must);
    return fits ? found->get<double>() : 0;
  }
  std::string text(const json& object, const std::string& place, const char* key) {
    const auto found = object.find(key);
    if (found == object.end())
      refuse(child(place, key), "is missing; it must be a name");
    else if (!found->is_string() || found->get_ref<const std::string&>().empty())
      refuse(child(place, key), "is " + files::describe(*found) + "; it must be a name");
    else
      return found->get<std::string>();
    return {};
  }
  bool refuse(const std::string& place, const std::string& what) {
    if (status_.ok()) status_ = wrong(place, what);
    return false;
  }
  bool ok() const { return status_.ok(); }
  Status take_status() { return std::exchange(status_, Status()); }

 private:
  Status status_;
};

void read_operators(Reader& reader, const json& list, const std::string& place, ListedDevice& device) {
  if (!list.is_array() || list.empty()) {
    reader.refuse(place, "is " + files::describe(list) + "; it must be a list of operators, or left out");
    return;
  }
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list[i].is_string()) {
      reader.refuse(child(place, i), "is " + files::describe(list[i]) + "; it must be an operator's name");
      return;
    }
    device.operators.push_back(list[i].get<std::string>());
  }
}

ListedDevice read_device(Reader& reader, const json& value, const std::string& place) {
  ListedDevice device;
  if (!reader.object(value, place, {"name", "kind", "operators", "slowed", "rates", "profile"})) return device;
  device.name = reader.text(value, place, "name");
  const std::string kind = reader.text(value, place, "kind");
  const auto known = std::find(std::begin(kinds), std::end(kinds), kind);
  if (known == std::end(kinds)) {
    reader.refuse(child(place, "kind"), "is \"" + kind.substr(0, 40) + "\"; it must be cpu, gpu or npu");
    return device;
  }
  device.kind = static_cast<DeviceKind>(known - std::begin(kinds));
  if (const auto list = value.find("operators"); list != value.end())
    read_operators(reader, *list, child(place, "operators"), device);
  if (const auto slowed = value.find("slowed"); slowed != value.end()) {
    if (slowed->is_number() && slowed->get<double>() >= 1)
      device.slowed = slowed->get<double>();
    else
      reader.refuse(child(place, "slowed"), "is " + files::describe(*slowed) + "; it must be a number, 1 or more");
  }
  const auto rates = value.find("rates"), profile = value.find("profile");
  if ((rates == value.end()) == (profile == value.end())) {
    reader.refuse(place, std::string("has ") +
                             (rates == value.end() ? "neither rates nor a profile" : "rates and a profile") +
                             "; it must have one of them");
    return device;
  }
  if (rates != value.end()) {
    const std::string at = child(place, "rates");
    if (!reader.object(*rates, at, {"flops_a_us", "bytes_a_us", "submit_us"})) return device;
    device.rates = DeviceRates{.flops_a_us = reader.number(*rates, at, "flops_a_us", true, true),
                               .bytes_a_us = reader.number(*rates, at, "bytes_a_us", true, true),
                               .submit_us = reader.number(*rates, at, "submit_us", false, false)};
    return device;
  }
  auto read = Profile::from_json(profile->dump());
  if (read)
    device.profile = std::move(*read);
  else
    reader.refuse(child(place, "profile"), "is none: " + std::string(read.error().message()));
  return device;
}

}  // namespace

bool ListedDevice::computes(std::string_view op) const {
  return operators.empty() || std::find(operators.begin(), operators.end(), op) != operators.end();
}

Expected<DeviceList> DeviceList::from_json(std::string_view text) {
  auto file = files::parse_strict_json(text, {.bytes = 16 << 20, .depth = 8, .values = 1 << 20});
  if (!file) return failure(std::move(file.error()));
  Reader reader;
  DeviceList list;
  if (!reader.object(*file, "", {"devices", "sync_us", "us_a_byte", "shared_bytes_a_us"}))
    return failure(reader.take_status());
  list.sync_us = reader.number(*file, "", "sync_us", false, false);
  list.us_a_byte = reader.number(*file, "", "us_a_byte", false, false);
  list.shared_bytes_a_us = reader.number(*file, "", "shared_bytes_a_us", false, false);
  const auto devices = file->find("devices");
  if (devices == file->end() || !devices->is_array() || devices->empty() || devices->size() > max_devices)
    reader.refuse("/devices", (devices == file->end() ? "is missing" : "is " + files::describe(*devices)) +
                                  "; it must be a list of 1 to 16 devices");
  for (std::size_t i = 0; reader.ok() && i < devices->size(); ++i) {
    const std::string place = child("/devices", i);
    ListedDevice device = read_device(reader, (*devices)[i], place);
    for (const ListedDevice& before : list.devices)
      if (before.name == device.name)
        reader.refuse(child(place, "name"), "is \"" + device.name + "\", as another's; it must be its own");
    list.devices.push_back(std::move(device));
  }
  if (!reader.ok()) return failure(reader.take_status());
  return list;
}

std::string DeviceList::json() const {
  nlohmann::json all = nlohmann::json::array();
  for (const ListedDevice& each : devices) {
    nlohmann::json device{{"name", each.name}, {"kind", kinds[static_cast<std::size_t>(each.kind)]}};
    if (!each.operators.empty()) device["operators"] = each.operators;
    if (each.slowed != 1) device["slowed"] = each.slowed;
    if (each.rates)
      device["rates"] = {{"flops_a_us", each.rates->flops_a_us},
                         {"bytes_a_us", each.rates->bytes_a_us},
                         {"submit_us", each.rates->submit_us}};
    if (each.profile) device["profile"] = nlohmann::json::parse(each.profile->json());
    all.push_back(std::move(device));
  }
  return nlohmann::json{{"devices", std::move(all)},
                        {"sync_us", sync_us},
                        {"us_a_byte", us_a_byte},
                        {"shared_bytes_a_us", shared_bytes_a_us}}
      .dump(1);
}

}  // namespace inlay::exec
