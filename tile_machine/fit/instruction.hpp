// Instructions of Ascend as msprof's simulator writes them: a name and a text of operands, such as
//
//   VADD                  XD:X16=0x400, XN:X13=0, XM:X14=0x200, XT:X8=0x100080808010101, Dtype:F16, Id:552
//   MOV_SRC_TO_DST_ALIGN  Src:OUT, Dst:UB, XD:X0=0x70000, XN:X0=0x113f9600, XM:X0=0x100010, XT:X0=0, Dtype:B16, id: 1
//
// What the bits of the registers mean is public with msprof itself (https://gitcode.com/Ascend/msopprof): XT[56:64) are
// the repeats of a vector instruction, XM[4:16) and XM[16:..) the number and length of a transfer's bursts.
#pragma once

#include <optional>
#include <string_view>

#include "tile_machine/device/device.hpp"
#include "tile_machine/events/event_log.hpp"

namespace inlay::npu {

struct VectorInstruction {
  VectorOp op = VectorOp::add;
  double repeats = 0;
};

struct MoveInstruction {
  Space from = Space::global, to = Space::vector;
  Change change = Change::none;
  double bytes = 0, runs = 0;
};

// Nothing: another kind of instruction, or one whose operands do not tell its work.
std::optional<VectorInstruction> vector_instruction(std::string_view name, std::string_view operands);
// `bytes`: of a log that counts them beside (process_bytes); 0: it does not.
std::optional<MoveInstruction> move_instruction(std::string_view name, std::string_view operands, double bytes = 0);

}  // namespace inlay::npu
