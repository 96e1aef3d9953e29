// Devices that lack a product, a vector operation, a drain or a path, as none of the library's does.
#include <gtest/gtest.h>

#include "tests/npu/computes_or_declines.hpp"

namespace inlay::fuzz {
namespace {

using test::ChangedDevice, test::Json, test::with_its_sources;

// Each entry of `list` left out in turn.
void without_each(const Json& device, const char* pointer, std::vector<ChangedDevice>& to) {
  const Json::json_pointer place(pointer);
  const Json& list = device[place];
  for (const auto& [key, entry] : list.items()) {
    Json changed = device;
    if (list.is_array())
      changed[place].erase(std::stoul(key));
    else
      changed[place].erase(key);
    const Json form = list.is_array() ? entry : Json(key);
    to.push_back({device["name"].get<std::string>() + " without " + form.dump(), with_its_sources(std::move(changed))});
  }
}

// A sum that no rate makes may not be drained.
Json without_rate(const Json& device, std::size_t rate) {
  Json changed = device;
  changed["matrix"]["rates"].erase(rate);
  Json drains = Json::array();
  for (const Json& form : device["matrix"]["drain"])
    for (const Json& left : changed["matrix"]["rates"])
      if (left["out"] == form["from"]) {
        drains.push_back(form);
        break;
      }
  changed["matrix"]["drain"] = drains;
  return changed;
}

std::vector<ChangedDevice> lacking_devices() {
  std::vector<ChangedDevice> all;
  for (const npu::Description& description : npu::descriptions()) {
    const Json device = Json::parse(description.text);
    const std::string name(description.name);
    const auto add = [&](const std::string& what, Json changed) {
      all.push_back({name + " " + what, with_its_sources(std::move(changed))});
    };
    for (std::size_t i = 0; i < device["matrix"]["rates"].size(); ++i)
      add("without rate " + std::to_string(i), without_rate(device, i));
    without_each(device, "/vector/operations", all);
    without_each(device, "/matrix/drain", all);
    without_each(device, "/paths", all);
    for (std::size_t i = 0; i < device["paths"].size(); ++i)
      for (const char* change : {"nd2nz", "turn"}) {
        Json changed = device;
        changed["paths"][i][change] = nullptr;
        add("that cannot " + std::string(change) + " on path " + std::to_string(i), std::move(changed));
        if (device["paths"][i]["from"] != "accumulator") continue;
        Json turned = device;  // sums go the other way
        turned["paths"][i]["to"] = device["paths"][i]["to"] == "vector" ? "global" : "vector";
        add("with its drain turned", std::move(turned));
      }
  }
  return all;
}

template <class Op> class OtherDevices : public ComputesOrDeclines<Op> {};
TYPED_TEST_SUITE(OtherDevices, EveryOperator, OperatorNames);

TYPED_TEST(OtherDevices, that_lack_something_compute_or_decline) {
  const auto counts = this->run_on_all(lacking_devices());
  const bool on_the_host = std::is_same_v<TypeParam, RopeTable<Host>>;
  EXPECT_EQ(counts.computed == 0, on_the_host);
}

// Each product of the matrix unit that an operator cannot do without.
TEST(other_devices, without_its_product_an_operator_is_declined_by_name) {
  const auto declined = [](const auto& op, const char* in) {
    for (const npu::Description& description : npu::descriptions()) {
      const Json device = Json::parse(description.text);
      for (std::size_t i = 0; i < device["matrix"]["rates"].size(); ++i) {
        if (device["matrix"]["rates"][i]["in"] != in) continue;
        const auto npu = Npu::make({.device = with_its_sources(without_rate(device, i))});
        ASSERT_TRUE(npu.has_value()) << npu.error().message();
        const Status status = supports(*npu, op);
        EXPECT_EQ(status.code(), StatusCode::unsupported);
        const std::string message(status.message());
        EXPECT_NE(message.find(description.name), message.npos) << message;
        EXPECT_NE(message.find("products of " + std::string(in)), message.npos) << message;
      }
    }
  };
  const std::uint16_t halves[64 * 64] = {};
  const ConstView<3> weight(halves, DType::f16, linear_packed_extents(16, 64, DType::f16));
  std::uint16_t y[16] = {};
  declined(
      Linear<Host>{
          .x = ConstView<2>(halves, DType::f16, {1, 64}), .weight = weight, .y = View<2>(y, DType::f16, {1, 16})},
      "f16");
  declined(LinearInt8<Host>{}, "i8");
  declined(LinearW4a16<Host>{}, "f16");
}

}  // namespace
}  // namespace inlay::fuzz
