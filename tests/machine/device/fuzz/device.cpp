// libFuzzer target of the loader of device descriptions; built by -DINLAY_FUZZ=ON with clang:
//
//   cmake -B build/fuzz -DCMAKE_CXX_COMPILER=clang++ -DINLAY_FUZZ=ON && ninja -C build/fuzz fuzz_device
//   mkdir found && build/fuzz/tests/fuzz_device -dict=tests/machine/device/fuzz/device.dict -max_len=16384
//     found tests/machine/device/fuzz/corpus devices
//
// Flipped bytes mostly break the JSON. Every other mutation therefore keeps it whole and changes values,
// up to three of them at once: what the loader does after its first error shows only then.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include <nlohmann/json.hpp>

#include "tests/machine/device/fuzz/promise.hpp"

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t max_size);

namespace {

using Json = nlohmann::json;

void collect(Json& value, std::vector<Json*>& all) {
  all.push_back(&value);
  if (value.is_structured())
    for (Json& element : value) collect(element, all);
}

Json odd_value(std::minstd_rand& random) {
  const Json values[] = {nullptr,
                         true,
                         -1,
                         0,
                         1,
                         0.5,
                         3,
                         1e300,
                         -0.0,
                         18446744073709551615u,
                         "",
                         "x",
                         "global",
                         Json::array(),
                         Json::object(),
                         Json::array({1, "x"})};
  return values[random() % std::size(values)];
}

void change_one_value(Json& root, std::minstd_rand& random) {
  std::vector<Json*> all;
  collect(root, all);
  Json& target = *all[random() % all.size()];
  const Json donor = *all[random() % all.size()];
  switch (random() % 5) {
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
    default:
      if (target.is_number()) target = target.get<double>() * (random() % 2 == 0 ? 2 : -0.5);
      if (target.is_boolean()) target = !target.get<bool>();
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  Json json = random() % 2 == 0 ? Json(Json::value_t::discarded) : Json::parse(data, data + size, nullptr, false);
  if (json.is_discarded()) return LLVMFuzzerMutate(data, size, max_size);
  for (auto changes = random() % 3 + 1; changes > 0; --changes) change_one_value(json, random);
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string broken = inlay::npu::broken_promise({reinterpret_cast<const char*>(data), size});
  if (!broken.empty()) {
    std::fprintf(stderr, "broken promise: %s\n", broken.c_str());
    std::abort();
  }
  return 0;
}
