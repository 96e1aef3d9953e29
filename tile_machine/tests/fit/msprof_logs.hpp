// Logs as msprof writes them, of a program on one core of a device that the fit does not see: from the timeline of our
// own machine.
#pragma once

#include <cmath>
#include <cstdio>
#include <random>
#include <set>
#include <stdexcept>
#include <string>

#include "tile_machine/estimate/estimate.hpp"
#include "tile_machine/tests/device/files.hpp"
#include "tile_machine/time/timing.hpp"

namespace inlay::npu {

// ascend-a2-like with other figures.
struct HiddenFigure {
  const char* pointer;
  double value;
};
inline Device hidden_device(std::initializer_list<HiddenFigure> figures) {
  Json json = description("ascend-a2-like");
  for (const HiddenFigure& figure : figures) json.at(Pointer(figure.pointer))[0] = figure.value;
  auto device = parse_device(json.dump());
  if (!device) throw std::runtime_error(std::string(device.error().message()));
  return *std::move(device);
}

// Transfers of several sizes and runs by each path of global memory, apart and behind one another, vector operations
// with 1 to 96 repeats, and operands on their way to the cube. Nothing is loaded twice: the L2 has none of it.
inline void exercise(Core& core, const Tensor& from, const Tensor& to, index repeats) {
  const Tensor ub = core.alloc("ub", Space::vector, {96, 256}, DType::f16);
  const Tensor other = core.alloc("other", Space::vector, {96, 256}, DType::f16);
  const Tensor sums = core.alloc("sums", Space::vector, {96, 1}, DType::f16);
  const Tensor l1 = core.alloc("l1", Space::staging, {128, 256}, DType::f16);
  const Tensor tiles = core.alloc("tiles", Space::staging, {128, 256}, DType::f16, Layout::nz);
  const Tensor left = core.alloc("left", Space::left, {128, 256}, DType::f16, Layout::nz);
  const Tensor right = core.alloc("right", Space::right, {256, 128}, DType::f16, Layout::nz);
  index row = 0;
  const auto rows_of = [&](const Tensor& tensor, index rows) {
    row += rows;
    return tensor.row_slice(row - rows, rows);
  };
  for (index turn = 0; turn < repeats; ++turn) {
    for (const index rows : {1, 4, 16, 48, 96}) {
      core.copy(ub.row_slice(0, rows), rows_of(from, rows));
      core.sync_all();
      core.copy(ub.slice(0, rows, 0, 64), rows_of(from, rows).slice(0, rows, 0, 64));
      core.sync_all();
      core.copy(rows_of(to, rows), other.row_slice(0, rows));
      core.sync_all();
      core.copy(rows_of(to, rows).slice(0, rows, 0, 64), other.slice(0, rows, 0, 64));
      core.sync_all();
      core.copy(l1.row_slice(0, rows), rows_of(from, rows));
      core.sync_all();
      core.copy(l1.slice(0, rows, 0, 64), rows_of(from, rows).slice(0, rows, 0, 64));
      core.sync_all();
      core.nd2nz(tiles.row_slice(0, rows), rows_of(from, rows));
      core.sync_all();
      core.nd2nz(tiles.slice(0, rows, 0, 64), rows_of(from, rows).slice(0, rows, 0, 64));
      core.sync_all();
    }
    for (int i = 0; i < 6; ++i) core.copy(ub.row_slice(16 * i, 16), rows_of(from, 16));
    for (int i = 0; i < 6; ++i)
      core.copy(ub.row_slice(16 * i, 16).slice(0, 16, 0, 64), rows_of(from, 16).slice(0, 16, 0, 64));
    core.sync_all();
    for (int i = 0; i < 6; ++i) core.copy(rows_of(to, 16), other.row_slice(16 * i, 16));
    for (int i = 0; i < 6; ++i)
      core.copy(rows_of(to, 16).slice(0, 16, 0, 64), other.row_slice(16 * i, 16).slice(0, 16, 0, 64));
    core.sync_all();
    for (int i = 0; i < 6; ++i) core.copy(l1.row_slice(16 * i, 16), rows_of(from, 16));
    for (int i = 0; i < 6; ++i)
      core.copy(l1.row_slice(16 * i, 16).slice(0, 16, 0, 64), rows_of(from, 16).slice(0, 16, 0, 64));
    core.sync_all();
    for (const index rows : {1, 2, 8, 32, 48}) {
      const auto at = [&](const Tensor& tensor) { return tensor.row_slice(0, rows); };
      core.vbinary(VectorOp::add, at(other), at(ub), at(ub));
      core.vbinary(VectorOp::mul, at(other), at(ub), at(ub));
      core.vbinary(VectorOp::div, at(other), at(ub), at(ub));
      core.vunary(VectorOp::exp, at(other), at(ub));
      core.vreduce(VectorOp::reduce_sum, at(sums), at(ub));
    }
    core.sync_all();
    for (const index rows : {16, 32, 64, 128}) {
      core.load_a(left.row_slice(0, rows), tiles.row_slice(0, rows));
      core.load_b(right.slice(0, 256, 0, rows), tiles.row_slice(0, rows), true);
    }
    core.sync_all();
  }
}

struct ExercisedDevice {
  EventLog log;
  Timeline timeline;
};
inline ExercisedDevice run_exercise(const Device& device, index repeats = 4) {
  const auto build = [=](GlobalMemory& memory) -> std::function<void(Core&)> {
    const Tensor from = memory.absent("from", DType::f16, {1 << 19, 256}, Use::in);
    const Tensor to = memory.absent("to", DType::f16, {1 << 19, 256});
    return [=](Core& core) { exercise(core, from, to, repeats); };
  };
  auto log = events_of(device, {.name = "exercise", .sizes = {}, .types = {}, .build = build, .launch = {1, 1}});
  if (!log) throw std::runtime_error(std::string(log.error().message()));
  auto timeline = time_events(*log, device);
  if (!timeline) throw std::runtime_error(std::string(timeline.error().message()));
  return {std::move(*log), std::move(*timeline)};
}

// An instruction of the log: its name, pipe and operands.
struct Written {
  std::string name, pipe, operands;
  std::uint64_t bytes = 0;  // of a transfer
};

inline std::string hexadecimal(std::uint64_t value) {
  char text[32];
  std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(value));
  return text;
}

// As the rules of tile_machine/fit/instruction.hpp have it; no name: nothing that msprof would show here.
inline Written written(const Device& device, const Work& work) {
  if (work.unit == Unit::vector) {
    const VectorCost& cost = device.vector.cost[static_cast<int>(work.op)];
    Entry entry;
    entry.work = work;
    const auto repeats = static_cast<std::uint64_t>(std::llround(to_cycles(cost_of(device, entry).units) / cost.slope));
    const char* name = work.op == VectorOp::add   ? "VADD"
                       : work.op == VectorOp::mul ? "VMUL"
                       : work.op == VectorOp::div ? "VDIV"
                       : work.op == VectorOp::exp ? "VEXP"
                                                  : "VCADD";
    return {name, "VECTOR",
            "XD:X16=0x400, XN:X13=0, XM:X14=0x200, XT:X8=" + hexadecimal(repeats << 56 | 0x80808010101) +
                ", Dtype:F16, Id:552"};
  }
  if (work.unit != Unit::dma) return {};
  const Path& path = device.paths[work.path];
  const std::uint64_t runs = work.runs, run = work.bytes / runs;
  if (work.change == Change::nd2nz)
    return {"MOV_OUT_TO_L1_MULTI_ND2NZ", "MTE2",
            "Src:OUT, Dst:L1, XD:X0=0x70000, XN:X0=0x113f9600, XM:X0=" + hexadecimal(runs << 16 | (run / 2) << 32) +
                ", XT:X0=0, Dtype:B16,  id: 1",
            work.bytes};
  if (path.pipe == Pipe::feed)
    return {"LOAD_2D", "MTE1",
            std::string("Src:L1, Dst:") + (path.to == Space::left ? "L0A" : "L0B") +
                ", XD:X0=0x70000, XN:X0=0x113f9600, XM:X0=" + hexadecimal(work.bytes / 512 << 16) +
                ", Dtype:B16,  id: 1",
            work.bytes};
  const bool store = path.to == Space::global;
  return {"MOV_SRC_TO_DST_ALIGN", store ? "MTE3" : "MTE2",
          std::string(store                      ? "Src:UB, Dst:OUT"
                      : path.to == Space::vector ? "Src:OUT, Dst:UB"
                                                 : "Src:OUT, Dst:L1") +
              ", XD:X0=0x70000, XN:X0=0x113f9600, XM:X0=" + hexadecimal(runs << 4 | run << 16) +
              ", XT:X0=0, Dtype:B16,  id: 1",
          work.bytes};
}

// Each duration is off by `noise`, one standard deviation.
class Noise {
 public:
  Noise(double noise, std::uint32_t seed) : noise_(noise), random_(seed) {}
  double operator()() { return noise_ == 0 ? 1 : std::max(1 + noise_ * normal_(random_), 0.5); }

 private:
  double noise_;
  std::mt19937 random_;
  std::normal_distribution<double> normal_;
};

inline std::string trace_json(const Device& device, const ExercisedDevice& run, double noise = 0,
                              std::uint32_t seed = 1) {
  Noise factor(noise, seed);
  Json events = Json::array();
  events.push_back({{"ph", "M"}, {"name", "process_name"}, {"pid", "core0.veccore0"}, {"args", {{"name", "core0"}}}});
  for (std::size_t i = 0; i < run.log.entries.size(); ++i) {
    const Entry& entry = run.log.entries[i];
    if (entry.event != Event::work) continue;
    const Written instruction = written(device, entry.work);
    if (instruction.name.empty()) continue;
    const double us = 1 / (device.ghz * 1e3), begin = to_cycles(run.timeline.spans[i].started) * us,
                 end = to_cycles(run.timeline.spans[i].ended) * us;
    Json event{{"ph", "X"},
               {"name", instruction.name},
               {"pid", entry.work.unit == Unit::vector || instruction.pipe == "MTE3" ? "core0.veccore0" : "core0.core"},
               {"tid", instruction.pipe},
               {"ts", begin},
               {"dur", (end - begin) * factor()},
               {"args", {{"detail", instruction.operands}, {"pc_addr", "0x10"}}}};
    if (instruction.bytes > 0) event["args"]["process_bytes"] = std::to_string(instruction.bytes);
    events.push_back(std::move(event));
  }
  events.push_back(
      {{"ph", "X"}, {"name", "MOV_XD_IMM"}, {"pid", "core0"}, {"tid", "SCALAR"}, {"ts", 1}, {"dur", 0.001}});
  return Json{{"displayTimeUnit", "ns"}, {"schemaVersion", 1}, {"traceEvents", events}}.dump();
}

// One row for each execution: msprof has one for each place in the code, with the number of its executions.
inline std::string instructions_csv(const Device& device, const ExercisedDevice& run, double noise = 0,
                                    std::uint32_t seed = 1) {
  Noise factor(noise, seed);
  std::string text = "instr,addr,pipe,call_count,cycles,running_time(us),detail\n";
  for (std::size_t i = 0; i < run.log.entries.size(); ++i) {
    const Entry& entry = run.log.entries[i];
    const Written instruction = written(device, entry.work);
    if (entry.event != Event::work || instruction.name.empty()) continue;
    const double cycles = to_cycles(run.timeline.spans[i].ended - run.timeline.spans[i].started);
    char line[512];
    std::snprintf(line, sizeof line, "%s,282121064,%s,4,%.0f,%.6f,\"%s\"\n", instruction.name.c_str(),
                  instruction.pipe.c_str(), 4 * cycles * factor(), 4 * cycles / (device.ghz * 1e3),
                  instruction.operands.c_str());
    text += line;
  }
  return text;
}

}  // namespace inlay::npu
