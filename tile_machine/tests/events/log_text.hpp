// A log's text that has everything, and what becomes of a text.
#pragma once

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "tests/support/source_dir.hpp"
#include "tile_machine/events/log_file.hpp"

namespace inlay::npu::test {

inline Device described(const std::string& name) {
  auto device = load_device(inlay::test::source_path("tile_machine/devices/") + name + ".json");
  EXPECT_TRUE(device) << device.error().message();
  return device ? *std::move(device) : Device{};
}
inline const Device a2 = described("ascend-a2-like"), hexagon = described("hexagon-htp-like");

// Every event once, every key somewhere: two cores with a cube core and a vector core each.
inline const std::vector<std::string> whole = {
    R"({"inlay_npu_log":1,"kernel":"all","cores":2,"streams":["AIC","AIV"]})",
    R"({"event":"buffer","file":"k.c","line":1,"buffer":0,"name":"x","space":"global","address":0,"bytes":65536})",
    R"({"event":"buffer","buffer":1,"name":"w","space":"global","address":65536,"bytes":4096,"workspace":true})",
    R"({"event":"allocate","verb":"alloc","file":"k.c","line":3,"buffer":2,"name":"l1","space":"staging","address":0,"bytes":8192})",
    R"({"event":"copy","verb":"DataCopy","file":"k.c","line":4,"column":7,"from":"global","to":"staging","bytes":4096,"runs":4,"change":"nd2nz","reads":[{"buffer":0,"offset":64,"bytes":1024,"runs":4,"stride":2048,"streamed":true}],"writes":[{"buffer":2,"offset":0,"bytes":4096}]})",
    R"({"event":"set","file":"k.c","line":5,"from":"load","to":"feed","flag":7,"ring":true})",
    R"({"event":"wait","file":"k.c","line":6,"from":"load","to":"feed","flag":7,"ring":true})",
    R"({"event":"copy","file":"k.c","line":7,"from":"staging","to":"left","bytes":512,"runs":1,"reads":[{"buffer":2,"offset":0,"bytes":512}],"writes":[{"space":"left","address":0,"bytes":512}]})",
    R"({"event":"barrier","file":"k.c","line":8,"pipe":"feed"})",
    R"({"event":"matrix","verb":"Mmad","file":"k.c","line":9,"m":16,"n":16,"k":16,"in":"f16","out":"f32","turned":true,"reads":[{"space":"left","address":0,"bytes":512},{"space":"right","address":0,"bytes":512}],"writes":[{"space":"accumulator","address":0,"bytes":1024}]})",
    R"({"event":"set","file":"k.c","line":10,"from":"matrix","to":"drain","flag":0,"unit":true})",
    R"({"event":"wait","file":"k.c","line":11,"from":"matrix","to":"drain","flag":0,"unit":true})",
    R"({"event":"release","file":"k.c","line":12,"buffer":2})",
    R"({"event":"stream_set","file":"k.c","line":13,"peer_stream":1,"from":"drain","to":"load_vector","flag":10})",
    R"({"event":"stream_wait","stream":1,"file":"k.c","line":14,"from":"drain","to":"load_vector","flag":10,"peer_stream":0})",
    R"({"event":"vector","stream":1,"verb":"Mul","file":"k.c","line":15,"op":"mul","in":"i8","out":"f16","elements":64,"rows":4,"broadcast":true,"reads":[{"space":"vector","address":0,"bytes":128}],"writes":[{"space":"vector","address":256,"bytes":256}]})",
    R"({"event":"copy","stream":1,"file":"k.c","line":16,"from":"vector","to":"global","bytes":64,"runs":1,"reads":[{"space":"vector","address":256,"bytes":64}],"writes":[{"buffer":1,"offset":0,"bytes":64,"atomic":true}]})",
    R"({"event":"cross_set","stream":1,"file":"k.c","line":17,"peer":1,"pipe":"store","flag":3})",
    R"({"event":"cross_wait","core":1,"stream":1,"file":"k.c","line":18,"pipe":"load_vector","flag":3})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":19,"reads":[{"buffer":0,"offset":0,"bytes":4}]})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":20,"cache":"invalidate","reads":[{"buffer":0,"offset":0,"bytes":4}]})",
    R"({"event":"scalar","core":1,"stream":1,"file":"k.c","line":21,"cache":"clean","reads":[{"space":"global","address":64,"bytes":4}]})",
    R"({"event":"barrier_all","core":1,"stream":1,"file":"k.c","line":22})",
    R"({"event":"sync_all","file":"k.c","line":23})",
    R"({"event":"end","events":23})"};

inline std::string text_of(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  return text;
}

inline tl::expected<LogFile, Status> parse(const std::string& text, const Device& device = a2) {
  std::istringstream stream(text);
  return read_log(stream, device);
}

inline std::string refusal(const std::string& text, const Device& device = a2) {
  const auto file = parse(text, device);
  if (file) return "it was taken";
  EXPECT_EQ(file.error().code(), StatusCode::corrupt_data);
  return std::string(file.error().message());
}

}  // namespace inlay::npu::test
