// Descriptions that load and are none of the library's: one that lacks a product, a vector operation, a drain or a
// path, one with a memory of a few bytes. An operator computes there, or is declined with what the device lacks, or
// says which memory is too small.
//
//   INLAY_FUZZ_RUNS   structs of each operator on each device     INLAY_FUZZ_SEED   of the first one
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include <nlohmann/json.hpp>

#include "npu_kernels/backend/descriptions.hpp"
#include "tests/fuzz/operators/every.hpp"
#include "tests/support/describe.hpp"

#include <inlay/npu.hpp>

namespace inlay::fuzz {
namespace {

using Json = nlohmann::ordered_json;

struct Changed {
  std::string what, text;
};

// Sources that no figure names any more are refused.
std::string with_its_sources(Json device) {
  std::set<std::string> used;
  const auto collect = [&](const auto& self, const Json& node) -> void {
    if (node.is_array() && node.size() == 2 && node[0].is_number() && node[1].is_string())
      used.insert(node[1].get<std::string>());
    else if (node.is_structured())
      for (const Json& each : node) self(self, each);
  };
  collect(collect, device);
  Json kept = Json::object();
  for (const auto& [key, source] : device["sources"].items())
    if (used.contains(key)) kept[key] = source;
  device["sources"] = kept;
  return device.dump();
}

// Each entry of `list` left out in turn.
void without_each(const Json& device, const char* pointer, std::vector<Changed>& to) {
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

std::vector<Changed> lacking_devices() {
  std::vector<Changed> all;
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

std::vector<Changed> small_devices() {
  std::vector<Changed> all;
  for (const npu::Description& description : npu::descriptions()) {
    const Json device = Json::parse(description.text);
    for (std::size_t i = 1; i < device["memories"].size(); ++i)
      for (const index bytes : {64, 512, 1536, 8192}) {
        Json changed = device;
        Json& memory = changed["memories"][i];
        const index align = memory["align"][0];
        memory["bytes"][0] = std::max(align, bytes / align * align);
        all.push_back({std::string(description.name) + " with " + std::to_string(bytes) + " bytes of " +
                           memory["name"].get<std::string>(),
                       with_its_sources(std::move(changed))});
      }
  }
  return all;
}

template <class Op> class OtherDevices : public ::testing::Test {
 protected:
  static constexpr std::size_t room_bytes = std::size_t{1} << 17;
  struct Counts {
    std::size_t computed = 0, declined = 0, refused = 0;
  };

  // A struct that the device has to compute, or to refuse.
  bool counts(const Draw& d, const Op& op) const {
    if (!check(op).ok() || writes_nothing(op)) return false;
    bool small = true;
    for_each_view(op, [&](const auto&, const auto& view) {
      small = small && (view.empty() || (view.size() <= index{1} << 15 && d.owns(view)));
    });
    return small;
  }

  void run_on(const Npu& npu, const Op& op, Counts& counts) {
    const Status supported = supports(npu, op);
    const auto cost = estimate(npu, op);
    if (!supported.ok()) {
      EXPECT_EQ(supported.code(), StatusCode::unsupported) << supported.message();
      EXPECT_EQ(cost.has_value(), false);
      ++counts.declined;
      return;
    }
    const Status status = run(npu, op, scratch_.take(workspace_bytes(npu, op), true));
    if (status.ok()) {
      ++counts.computed;
      EXPECT_TRUE(cost.has_value() || has_experts(op)) << cost.error().message();  // of which one has an estimate
      return;
    }
    const std::string message(status.message());
    EXPECT_TRUE(message.find("capacity") != message.npos || message.find("alignment") != message.npos) << message;
    ++counts.refused;
  }

  Counts run_on_all(const std::vector<Changed>& devices) {
    Counts counts;
    std::uint64_t seed = number("INLAY_FUZZ_SEED", 1);
    const std::uint64_t structs = number("INLAY_FUZZ_RUNS", 1);
    for (const Changed& device : devices) {
      const auto npu = Npu::make({.device = device.text, .cores = 1});
      if (!npu) continue;  // the loader has refused it: device/refusals.cpp
      SCOPED_TRACE(device.what);
      for (std::uint64_t made = 0, last = seed + 1000; made < structs && seed < last; ++seed) {
        Draw d(rooms_, seed);
        Op op{};
        draw(d, op);
        if (!this->counts(d, op)) continue;
        SCOPED_TRACE("INLAY_FUZZ_SEED=" + std::to_string(seed) + ": " + test::describe(op));
        run_on(*npu, op, counts);
        ++made;
      }
    }
    return counts;
  }

  Rooms rooms_{160, room_bytes};
  ScratchRoom scratch_;
};
TYPED_TEST_SUITE(OtherDevices, EveryOperator, OperatorNames);

TYPED_TEST(OtherDevices, that_lack_something_compute_or_decline) {
  const auto counts = this->run_on_all(lacking_devices());
  const bool on_the_host = std::is_same_v<TypeParam, RopeTable<Host>>;
  EXPECT_EQ(counts.computed == 0, on_the_host);
  EXPECT_EQ(counts.refused, 0u);
}

TYPED_TEST(OtherDevices, with_small_memories_compute_or_say_which_is_too_small) {
  const auto counts = this->run_on_all(small_devices());
  const bool on_the_host = std::is_same_v<TypeParam, RopeTable<Host>>;
  EXPECT_EQ(counts.computed + counts.refused == 0, on_the_host);
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
