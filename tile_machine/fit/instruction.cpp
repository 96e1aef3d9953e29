#include "tile_machine/fit/instruction.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

namespace inlay::npu {

namespace {

// Names of A2 and A3 whose work one operation of a description stands for; with S a scalar is the second operand.
constexpr std::pair<std::string_view, VectorOp> operations[] = {
    {"VADD", VectorOp::add},         {"VADDS", VectorOp::add},          {"VSUB", VectorOp::sub},
    {"VMUL", VectorOp::mul},         {"VMULS", VectorOp::mul},          {"VDIV", VectorOp::div},
    {"VMAX", VectorOp::max},         {"VMAXS", VectorOp::max},          {"VMIN", VectorOp::min},
    {"VMINS", VectorOp::min},        {"VEXP", VectorOp::exp},           {"VRSQRT", VectorOp::rsqrt},
    {"VREC", VectorOp::recip},       {"VCADD", VectorOp::reduce_sum},   {"VCMAX", VectorOp::reduce_max},
    {"VCMIN", VectorOp::reduce_min}, {"VCONV", VectorOp::cast},         {"VSEL", VectorOp::select},
    {"VLN", VectorOp::log},          {"VSQRT", VectorOp::sqrt},         {"VABS", VectorOp::abs},
    {"VAND", VectorOp::bit_and},     {"VOR", VectorOp::bit_or},         {"VSHL", VectorOp::shift_left},
    {"VSHR", VectorOp::shift_right}, {"VCMP", VectorOp::compare},       {"VCMPV", VectorOp::compare},
    {"VCMPVS", VectorOp::compare},   {"VGATHER", VectorOp::gather},     {"VBRCB", VectorOp::broadcast_row},
    {"VECTOR_DUP", VectorOp::fill},  {"VNCHWCONV", VectorOp::transpose}};

constexpr std::pair<std::string_view, Space> memories[] = {
    {"OUT", Space::global}, {"GM", Space::global}, {"L1", Space::staging},      {"L0A", Space::left},
    {"L0B", Space::right},  {"UB", Space::vector}, {"L0C", Space::accumulator}, {"L0C32", Space::accumulator}};

// What stands behind "key:" up to the next comma; empty where there is no such key.
std::string_view operand(std::string_view operands, std::string_view key) {
  for (std::size_t at = operands.find(key); at != operands.npos; at = operands.find(key, at + 1)) {
    const std::size_t value = at + key.size();
    const bool begins = at == 0 || operands[at - 1] == ' ' || operands[at - 1] == ',';
    if (!begins || value >= operands.size() || operands[value] != ':') continue;
    std::string_view text = operands.substr(value + 1);
    text = text.substr(0, text.find(','));
    while (text.starts_with(' ')) text.remove_prefix(1);
    while (text.ends_with(' ')) text.remove_suffix(1);
    return text;
  }
  return {};
}

// The number in a register: "XT:X8=0x1000", "XN:X13=0".
std::optional<std::uint64_t> content(std::string_view operands, std::string_view register_name) {
  std::string_view text = operand(operands, register_name);
  const std::size_t equals = text.find('=');
  if (equals == text.npos) return std::nullopt;
  text.remove_prefix(equals + 1);
  if (text.starts_with("0x")) text.remove_prefix(2);  // all are hexadecimal, 0x or not
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

double bits(std::uint64_t value, int first, int count) {
  return static_cast<double>(value >> first & ((std::uint64_t{1} << count) - 1));
}

double bytes_of_type(std::string_view operands) {
  const std::string_view type = operand(operands, "Dtype");
  const auto ends = [&](std::string_view digits) { return type.ends_with(digits); };
  return ends("16") ? 2 : ends("32") ? 4 : ends("64") ? 8 : ends("8") ? 1 : 0;
}

std::optional<Space> memory(std::string_view name) {
  const auto* found = std::find_if(std::begin(memories), std::end(memories), [&](auto& m) { return m.first == name; });
  return found == std::end(memories) ? std::nullopt : std::optional(found->second);
}

// "MOV_OUT_TO_UB": the memories that a name holds itself, where the operands do not say.
std::string_view part(std::string_view name, std::string_view before, std::string_view after) {
  const std::size_t begin = name.find(before);
  if (begin == name.npos) return {};
  name.remove_prefix(begin + before.size());
  return name.substr(0, name.find(after));
}

}  // namespace

std::optional<VectorInstruction> vector_instruction(std::string_view name, std::string_view operands) {
  const auto* found =
      std::find_if(std::begin(operations), std::end(operations), [&](auto& each) { return each.first == name; });
  const auto config = content(operands, "XT");
  if (found == std::end(operations) || !config) return std::nullopt;
  const double repeats = bits(*config, 56, 8);
  if (repeats == 0) return std::nullopt;  // a mask counts its elements instead
  return VectorInstruction{found->second, repeats};
}

std::optional<MoveInstruction> move_instruction(std::string_view name, std::string_view operands, double bytes) {
  const bool load = name == "LOAD_2D", drain = name == "FIX_L0C_TO_DST";
  if (!load && !drain && !name.starts_with("MOV_")) return std::nullopt;
  std::string_view source = operand(operands, "Src"), target = operand(operands, "Dst");
  if (source.empty()) source = drain ? "L0C" : part(name, "MOV_", "_TO_");
  if (target.empty()) target = part(name, "_TO_", "_");
  const auto from = memory(source), to = memory(target);
  const auto config = content(operands, "XM");
  if (!from || !to || !config) return std::nullopt;
  MoveInstruction move{.from = *from, .to = *to};
  if (load) {  // fractals of 512 bytes
    move.runs = bits(*config, 16, 8);
    move.bytes = 512 * move.runs;
  } else if (name.ends_with("_ND2NZ")) {  // n rows of d elements
    move.change = Change::nd2nz;
    move.runs = bits(*config, 16, 16);
    move.bytes = move.runs * bits(*config, 32, 16) * bytes_of_type(operands);
  } else if (drain) {  // m rows, of elements whose type another register hides
    move.runs = bits(*config, 16, 16);
    move.bytes = bytes;
  } else {  // bursts: of blocks of 32 bytes, or aligned of bytes
    const bool aligned = name.ends_with("_ALIGN");
    move.runs = bits(*config, 4, 12);
    move.bytes = move.runs * (aligned ? bits(*config, 16, 21) : 32 * bits(*config, 16, 16));
  }
  if (bytes > 0) move.bytes = bytes;
  if (move.bytes == 0 || move.runs == 0) return std::nullopt;
  return move;
}

}  // namespace inlay::npu
