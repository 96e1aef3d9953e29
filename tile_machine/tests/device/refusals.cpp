// Whatever is wrong in a description is refused by an error that names the key.
#include <algorithm>
#include <functional>
#include <string>
#include <string_view>

#include <gtest/gtest.h>

#include "tests/support/source_dir.hpp"
#include "tile_machine/device/device.hpp"
#include "tile_machine/tests/device/files.hpp"

namespace inlay::npu {
namespace {

// The message with which a description is refused; empty: it was accepted.
std::string refusal_of_text(std::string_view text) {
  const auto device = parse_device(text);
  if (device) return {};
  EXPECT_EQ(device.error().code(), StatusCode::corrupt_data);
  return std::string(device.error().message());
}
std::string refusal(const Json& json) { return refusal_of_text(json.dump()); }

// One change of ascend-a2-like, and the beginning of the message that must refuse it.
struct Change {
  const char* pointer;
  const char* value;  // JSON
  const char* message;
};

TEST(device, a_wrong_value_is_named_by_its_pointer) {
  constexpr Change changes[] = {
      {"/format", "1", "/format is 1: it must be 2"},
      {"/format", "\"2\"", "/format is \"2\": it must be 2"},
      {"/version", "0", "/version is 0: it must be a whole number from 1"},
      {"/version", "1.5", "/version is 1.5: it must be a whole number"},
      {"/name", "\"\"", "/name is \"\": it must be a text of 1 to 64 bytes"},
      {"/name", "\"a b\"", "/name is \"a b\": it must be of letters"},
      {"/extra", "1", "/extra is unknown: the key must be one of format, name"},
      {"/a~1b", "1", "/a~1b is unknown"},
      {"/about", "7", "/about is 7: it must be a text"},

      {"/cores", "24", "/cores is 24: it must be a figure: [number, \"<source>\"]"},
      {"/cores", "[24]", "/cores is an array of 1: it must be a figure"},
      {"/cores/0", "0", "/cores/0 is 0: it must be a whole number from 1 to 4096"},
      {"/cores/0", "-3", "/cores/0 is -3: it must be a whole number from 1 to 4096"},
      {"/cores/0", "2.5", "/cores/0 is 2.5: it must be a whole number from 1 to 4096"},
      {"/cores/0", "1e18", "/cores/0 is 1e+18: it must be a whole number from 1 to 4096"},
      {"/cores/0", "18446744073709551615", "/cores/0 is 18446744073709551615: it must be a whole number"},
      {"/cores/1", "\"nobody\"", "/cores/1 is \"nobody\": it must be a key of /sources"},
      {"/cores/1", "null", "/cores/1 is null: it must be a text"},
      {"/ghz/0", "0", "/ghz/0 is 0: it must be a number from 0.001 to 100"},
      {"/ghz/0", "\"fast\"", "/ghz/0 is \"fast\": it must be a number"},

      {"/sources", "{}", "/sources is an object: it must be an object with at least one source"},
      {"/sources/clock/confidence", "\"sure\"",
       "/sources/clock/confidence is \"sure\": it must be one of documented, measured, derived, assumed"},
      {"/sources/time/confidence", "\"documented\"", "/sources/time/text is \"Delays of instructions"},
      {"/sources/time/confidence", "\"measured\"", "/sources/time/text is \"Delays of instructions"},
      {"/sources/clock/text", "\"\"", "/sources/clock/text is \"\": it must be a text"},
      {"/host/launch_us/0", "-1", "/host/launch_us/0 is -1: it must be a number from 0"},
      {"/host", "{}", "/host/launch_us is missing; the keys here are launch_us, dispatch_us, sync_us"},
      {"/sources/clock/range", "[1.5, 2]", "/sources/clock/range/0 is 1.5: it must be a number from 0.01 to 1"},
      {"/sources/clock/range", "[1]", "/sources/clock/range is an array of 1: it must be [low, high], two factors"},
      {"/sources/clock/ranges", "[1, 1]", "/sources/clock/ranges is unknown"},
      {"/sources/spare", R"({"confidence": "assumed", "text": "of nothing"})",
       "/sources/spare is the source of no figure"},

      // Slower than the model's smallest share of a bandwidth.
      {"/dram/bytes_per_cycle_core/0", "0.003",
       "/dram/bytes_per_cycle_core/0 is 0.003: it must be a number from 0.00390625"},
      {"/dram/bytes_per_cycle/0", "0.09",
       "/dram/bytes_per_cycle is 0.09: it must be at least 0.09375, 0.00390625 for each of 24 cores"},
      {"/l2/bytes_per_cycle/0", "0.09", "/l2/bytes_per_cycle is 0.09: it must be at least 0.09375"},
      {"/paths/0/bytes_per_cycle/0", "1e-5",
       "/paths/0/bytes_per_cycle/0 is 1e-05: it must be a number from 0.00390625"},
      {"/dram/bytes_per_cycle_core/0", "900", "/dram/bytes_per_cycle_core is 900: it must be at most bytes_per_cycle"},
      {"/dram/bytes_per_cycle_agent", R"([866, "hbm"])",
       "/dram/bytes_per_cycle_agent is 866: it must be at most bytes_per_cycle, 865"},
      {"/dram/bytes_per_cycle_agent", R"([100, "hbm"])",
       "/dram/bytes_per_cycle_core is 128: it must be at most bytes_per_cycle_agent, 100"},
      {"/dram/bytes_per_cycle_agent", R"([0.05, "hbm"])",
       "/dram/bytes_per_cycle_agent is 0.05: it must be at least 0.09375, 0.00390625 for each of 24 cores"},
      {"/l2/bytes_per_cycle_core/0", "4000",
       "/l2/bytes_per_cycle_core is 4000: it must be at most bytes_per_cycle, 3784"},
      {"/l2/line/0", "100", "/l2/line/0 is 100: it must be a power of two from 8 to 4096"},
      {"/l2/bytes/0", "0", "/l2/bytes/0 is 0: it must be a whole number from 4096"},
      {"/l2/hints", "1", "/l2/hints is 1: it must be true or false"},
      {"/scalar", "null", "/scalar is null: it must be an object"},
      {"/scalar/miss_cycles/0", "-1", "/scalar/miss_cycles/0 is -1: it must be a number from 0"},
      {"/memories", "[]", "/memories is an array of 0: it must be an array of 1 to 16"},
      {"/memories/1/bytes/0", "0", "/memories/1/bytes/0 is 0: it must be a whole number from 64 to 1073741824"},
      {"/memories/1/bytes/0", "1099511627776", "/memories/1/bytes/0 is 1099511627776: it must be a whole number"},
      {"/memories/1/bytes/0", "524289", "/memories/1/bytes is 524289: it must be a multiple of align, 32"},
      {"/memories/1/align/0", "48", "/memories/1/align/0 is 48: it must be a power of two from 1 to 4096"},
      {"/memories/2/name", "\"L1\"", "/memories/2/name is \"L1\": it must be unlike the other memories' names"},
      {"/memories/6", R"({"name": "spare", "bytes": [64, "sizes"], "align": [1, "align"], "granule": [1, "align"]})",
       "/memories/6 is spare: a memory must have a role in /spaces"},

      {"/spaces/left", "\"L0D\"", "/spaces/left is \"L0D\": it must be the name of one of /memories"},
      {"/spaces/left", "\"GM\"", "/spaces/left is \"GM\": it must be a memory of the core"},
      {"/spaces/global", "\"L1\"", "/spaces/global is \"L1\": it must be the first of /memories"},
      {"/spaces/up", "\"L1\"", "/spaces/up is unknown"},
      {"/spaces/left", "\"L0B\"", "/memories/2 is L0A: a memory must have a role in /spaces"},

      {"/queues/1/depth/0", "0", "/queues/1/depth/0 is 0: it must be a whole number from 1"},
      {"/queues/1/issue_cycles/0", "-1", "/queues/1/issue_cycles/0 is -1: it must be a number from 0"},
      {"/queues/1/outstanding/0", "0", "/queues/1/outstanding/0 is 0: it must be a whole number from 1 to 64"},
      {"/queues/1/in_order_visible", "0", "/queues/1/in_order_visible is 0: it must be true or false"},
      {"/queues/0/in_order_visible", "false", "/queues/0/in_order_visible is false: it must be true"},
      {"/queues/1/name", "\"S\"", "/queues/1/name is \"S\": it must be unlike the other queues' names"},
      {"/pipes/load", "\"MTE9\"", "/pipes/load is \"MTE9\": it must be the name of one of /queues"},
      {"/pipes/load", "\"S\"", "/pipes/load is \"S\": it must be another queue than the scalar one"},
      {"/pipes/load", "\"AIC.MTE1\"", "/queues/1 is AIC.MTE2: a queue must have a role in /pipes"},

      {"/streams", "[]", "/streams is an array of 0: it must be an object"},
      {"/streams/flags/0", "0", "/streams/flags/0 is 0: it must be a whole number from 1 to 1024"},
      {"/streams/cycles/0", "-1", "/streams/cycles/0 is -1: it must be a number from 0"},
      {"/streams/wait_stops_stream", "1", "/streams/wait_stops_stream is 1: it must be true or false"},
      {"/streams/list", "[]", "/streams/list is an array of 0: it must be an array of 1 to 4"},
      {"/streams/list/1/count/0", "17", "/streams/list/1/count/0 is 17: it must be a whole number from 1 to 16"},
      {"/streams/list/1/name", "\"AIC\"",
       "/streams/list/1/name is \"AIC\": it must be unlike the other streams' names"},
      {"/streams/list/1/queues/0", "\"UB\"",
       "/streams/list/1/queues/0 is \"UB\": it must be the name of one of /queues"},
      {"/streams/list/1/queues/0", "\"AIC.M\"",
       "/streams has the queue AIC.M 2 times: it must be one stream's, and once"},
      {"/streams/list/1/queues/3", "\"S\"", "/streams has the queue S 1 times: it must be no stream's, as all have it"},
      {"/streams/list/1/memories/0", "\"GM\"", "/streams has the memory GM 1 times: it must be no stream's"},
      {"/streams/list/0/memories/4", "\"UB\"", "/streams has the memory UB 2 times: it must be one stream's"},

      {"/paths/0/from", "\"L1\"", "/paths/0/from is \"L1\": it must be one of global, staging, left"},
      {"/paths/0/to", "\"global\"", "/paths/0/to is \"global\": it must be in another memory than global"},
      {"/paths/0/pipe", "\"matrix\"", "/paths/0/pipe is \"matrix\": it must be a pipe that moves data"},
      {"/paths/0/bytes_per_cycle/0", "0", "/paths/0/bytes_per_cycle/0 is 0: it must be a number from"},
      {"/paths/0/latency/0", "-0.5", "/paths/0/latency/0 is -0.5: it must be a number from 0"},
      {"/paths/0/nd2nz", "\"cheap\"", "/paths/0/nd2nz is \"cheap\": it must be null, \"free\" or an object"},
      {"/paths/0/nd2nz/run_cycles/0", "-1", "/paths/0/nd2nz/run_cycles/0 is -1: it must be a number from 0"},
      {"/paths/3/turn", "{}", "/paths/3/turn/bytes_per_cycle is missing"},
      {"/paths/0/nd2nz", R"({"pass_bytes_per_cycle": [0, "relayout"]})",
       "/paths/0/nd2nz/pass_bytes_per_cycle/0 is 0: it must be a number from"},
      {"/paths/0/nd2nz", R"({"pass_bytes_per_cycle": [1, "relayout"], "run_cycles": [0, "relayout"]})",
       "/paths/0/nd2nz/run_cycles is unknown"},
      {"/paths/1/to", "\"staging\"",
       "/paths/1/to is \"staging\": it must be unlike that of the other paths from global"},
      {"/paths/2/to", "\"accumulator\"", "/paths has no path from staging to left: there must be one"},
      {"/paths/2/to", "\"vector\"",
       "/paths/2/pipe is \"feed\": it must be a pipe of the stream that has the memory of vector"},
      {"/paths/4/to", "\"staging\"", "/paths has no path from accumulator to global or vector"},

      {"/matrix/dataflow", "\"input_stationary\"", "/matrix/dataflow is \"input_stationary\": it must be one of"},
      {"/matrix/systolic", "true", "/matrix/systolic is true: it must be an object"},
      {"/matrix/systolic", "{}", "/matrix/systolic/rows is missing"},
      {"/matrix/rates/0/in", "\"f17\"", "/matrix/rates/0/in is \"f17\": it must be one of f32, f16"},
      {"/matrix/rates/1/in", "\"f16\"",
       "/matrix/rates/1/out is \"f32\": it must be unlike that of the other rates of f16"},
      {"/matrix/rates/0/cycles/0", "0", "/matrix/rates/0/cycles/0 is 0"},
      {"/matrix/preload", "true", "/matrix/preload is true: it must be one of exposed, hidden, pipelined"},
      {"/matrix/right", "\"left\"", "/matrix/right is \"left\": it must be one of any, rows, columns"},
      {"/vector/align/0", "48", "/vector/align/0 is 48: it must be a power of two from 1 to 4096"},
      {"/vector/bytes/0", "100", "/vector/bytes/0 is 100: it must be a power of two from 4"},
      {"/vector/operations/exp/slope/0", "0", "/vector/operations/exp/slope/0 is 0"},
      {"/matrix/drain/0/from", "\"f16\"", "/matrix/drain/0/from is \"f16\": it must be the type of an accumulator"},
      {"/matrix/drain/1/to", "\"f32\"",
       "/matrix/drain/1/to is \"f32\": it must be unlike that of the other drains of f32"},
      {"/matrix/drain/0/scales", "\"rows\"",
       "/matrix/drain/0/scales is \"rows\": it must be one of none, one, columns"},
      {"/vector/operations", "{}", "/vector/operations is empty: it must have some of the keys add, sub"},
      {"/vector/operations", "[]", "/vector/operations is an array of 0: it must be an object"},
      {"/vector/operations/sin", R"({"head": [1, "time"], "slope": [1, "time"]})", "/vector/operations/sin is unknown"},
      {"/sync/unit_flag/0", "0", "/sync/unit_flag/0 is 0: it must be a whole number from 1"},
      {"/sync/flags/0", "0", "/sync/flags/0 is 0: it must be a whole number from 1 to 1024"},
      {"/numerics/k_block/0", "0", "/numerics/k_block/0 is 0"},
      {"/compile/fixed_ms/0", "-1", "/compile/fixed_ms/0 is -1"},
  };
  const Json base = description("ascend-a2-like");
  for (const Change& change : changes) {
    Json json = base;
    json[Pointer(change.pointer)] = Json::parse(change.value);
    EXPECT_EQ(refusal(json).substr(0, std::string_view(change.message).size()), change.message)
        << change.pointer << " = " << change.value;
  }
}

// Values of every kind, none of them right anywhere in a description (but null as a part that the device lacks).
const Json wrong_kinds[] = {nullptr, true, -1, 1e300, "\x7f", Json::array(), Json::object(), Json::array({1, 2, 3})};

// These may be null: there is no such part.
bool may_be_null(const std::string& pointer) {
  return pointer == "/matrix/systolic" || pointer == "/streams" || pointer == "/l2" || pointer == "/sync/unit_flag" ||
         pointer.ends_with("/nd2nz") || pointer.ends_with("/turn");
}

// Visits every value of the description but the root, with the JSON pointer to it.
void each_value(const Json& json, const std::string& pointer, const std::function<void(const std::string&)>& visit) {
  if (!json.is_structured()) return;
  for (const auto& item : json.items()) {
    visit(pointer + "/" + item.key());
    each_value(item.value(), pointer + "/" + item.key(), visit);
  }
}

TEST(device, every_value_of_a_wrong_kind_is_named) {
  for (const char* name : {"ascend-a2-like", "systolic32"}) {
    const Json base = description(name);
    int changes = 0;
    each_value(base, "", [&](const std::string& pointer) {
      const Json& old = base.at(Pointer(pointer));
      for (const Json& wrong : wrong_kinds) {
        if ((wrong.is_boolean() && old.is_boolean()) || (wrong.is_null() && may_be_null(pointer))) continue;
        if (wrong.is_string() && (pointer == "/about" || pointer.ends_with("/text"))) continue;
        Json json = base;
        json[Pointer(pointer)] = wrong;
        const std::string message = refusal(json);
        // A source that is no longer there is missed where it was named, a wrong name where it is taken up.
        EXPECT_EQ(message.substr(0, pointer.size()), pointer) << pointer << " = " << wrong << ": " << message;
        ++changes;
      }
    });
    EXPECT_GT(changes, 1500);
  }
}

TEST(device, every_key_that_is_missing_is_named) {
  for (const char* name : {"hexagon-htp-like", "systolic128"}) {
    const Json base = description(name);
    each_value(base, "", [&](const std::string& pointer) {
      const Pointer at(pointer);
      if (!base.at(at.parent_pointer()).is_object()) return;
      if (at.parent_pointer() == Pointer("/vector/operations") || pointer.ends_with("/range") || pointer == "/host" ||
          pointer == "/dram/bytes_per_cycle_agent")
        return;  // may be left out
      Json json = base;
      json.at(at.parent_pointer()).erase(at.back());
      const std::string message = refusal(json);
      if (at.parent_pointer() == Pointer("/vector/operations"))  // the unit does not have it
        EXPECT_EQ(message, "");
      else if (at.parent_pointer() == Pointer("/sources"))  // a figure misses it
        EXPECT_NE(message.find("is \"" + at.back() + "\": it must be a key of /sources"), message.npos) << message;
      else if (at.back() == "pass_bytes_per_cycle")  // nothing is left, which is short of the other form
        EXPECT_EQ(message.find(at.parent_pointer().to_string() + "/bytes_per_cycle is missing;"), 0u) << message;
      else
        EXPECT_EQ(message.substr(0, pointer.size() + 12), pointer + " is missing;");
    });
  }
}

TEST(device, text_that_is_no_json_is_refused) {
  const std::string good = text_of(directory / "systolic32.json");
  const std::string many = "[" + std::string(100000, ' ') + "0" + [] {
    std::string zeros;
    for (int i = 0; i < 20000; ++i) zeros += ",0";
    return zeros;
  }() + "]";
  const std::pair<std::string, const char*> cases[] = {
      {"", "/: the text here must be JSON; byte"},
      {"{", "/: the text here must be JSON; byte"},
      {"[1, 2]", "/ is an array of 2: it must be an object"},
      {"{} {}", "/: the text here must be JSON; byte"},
      {"// a comment\n{}", "/: the text here must be JSON; byte"},
      {R"({"name": "a", "name": "b"})", "/name stands twice: a key must be unique"},
      {R"({"dram": {"x/y": 1, "x/y": 2}})", "/dram/x~1y stands twice"},
      {R"({"paths": [{}, {"to": NaN}]})", "/paths/1/to: the text here must be JSON; byte"},
      {R"({"ghz": [1e999, "x"]})", "/ghz/0: the text here must be JSON; byte"},
      {"{\"name\": \"\xff\"}", "/name: the text here must be JSON; byte"},
      {R"({"a": [[[[[[[[0]]]]]]]]})", "/a/0/0/0/0/0/0/0 is nested 9 deep: it must be at most 8"},
      {std::string(100000, '['), "/0/0/0/0/0/0/0/0 is nested 9 deep: it must be at most 8"},
      {many, "/16383 is value number 16385: there must be at most 16384"},
      {std::string(300000, ' '), "/ has 300000 bytes: it must have at most 262144"},
  };
  for (const auto& [text, message] : cases)
    EXPECT_EQ(refusal_of_text(text).substr(0, std::string_view(message).size()), message) << text.substr(0, 60);
  for (std::size_t length = 0; length + 2 < good.size(); length += 61)
    EXPECT_NE(refusal_of_text(std::string_view(good).substr(0, length)), "") << length;
}

TEST(device, a_message_quotes_only_what_is_printable_and_short) {
  const std::string odd = std::string(70, '\x01') + std::string(5000, 'x');
  Json value = description("systolic32"), key = value, source = value;
  value["name"] = odd;
  key["matrix"][odd] = 1;
  source["sources"][odd] = 1;
  for (const Json& json : {value, key, source}) {
    const std::string message = refusal(json);
    EXPECT_NE(message, "");
    EXPECT_LT(message.size(), 400u);
    EXPECT_TRUE(std::all_of(message.begin(), message.end(), [](char c) { return c >= ' ' && c <= '~'; })) << message;
  }
}

TEST(device, a_file_that_cannot_be_read_is_named) {
  for (const char* file : {"/nowhere/device.json", inlay::test::source_dir}) {
    const auto device = load_device(file);
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().code(), StatusCode::not_found);
    EXPECT_EQ(device.error().message().substr(0, std::string_view(file).size()), file);
  }
  const auto device = load_device(inlay::test::source_path("README.md"));
  ASSERT_FALSE(device);
  EXPECT_EQ(device.error().code(), StatusCode::corrupt_data);
}

}  // namespace
}  // namespace inlay::npu
