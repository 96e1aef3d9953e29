#include "tile_machine/emit/statements.hpp"

#include <bit>
#include <cmath>
#include <cstdio>
#include <utility>

#include "tile_machine/events/sites.hpp"

namespace inlay::npu::emit {

namespace {

std::string text_of(float number) {
  char text[32];
  if (!std::isfinite(number)) {
    std::snprintf(text, sizeof text, "FloatOf(0x%08x)", std::bit_cast<std::uint32_t>(number));
    return text;
  }
  std::snprintf(text, sizeof text, "%.9g", static_cast<double>(number));
  std::string result = text;
  if (result.find_first_of(".e") == result.npos) result += ".0";
  return result + "f";
}

std::string call_of(VectorOp op) {
  switch (op) {
    case VectorOp::add: return "Add";
    case VectorOp::sub: return "Sub";
    case VectorOp::mul: return "Mul";
    case VectorOp::div: return "Div";
    case VectorOp::max: return "Max";
    case VectorOp::min: return "Min";
    case VectorOp::exp: return "Exp";
    case VectorOp::log: return "Ln";
    case VectorOp::sqrt: return "Sqrt";
    case VectorOp::abs: return "Abs";
    default: return {};
  }
}

std::string mode_of(Compare how) {
  switch (how) {
    case Compare::less: return "LT";
    case Compare::less_equal: return "LE";
    case Compare::greater: return "GT";
    case Compare::greater_equal: return "GE";
    case Compare::equal: return "EQ";
    default: return "NE";
  }
}

// Of the core that has it.
std::string queue_of(Pipe pipe) {
  switch (pipe) {
    case Pipe::load:
    case Pipe::load_vector: return "MTE2";
    case Pipe::feed: return "MTE1";
    case Pipe::matrix: return "M";
    case Pipe::drain: return "FIX";
    case Pipe::vector: return "V";
    case Pipe::store: return "MTE3";
    default: return "S";
  }
}

bool is_cube_verb(std::string_view name) {
  return name == "nd2nz" || name == "load_a" || name == "load_b" || name == "mma" || name == "drain";
}

bool side_by_side(const Tensor& tensor) { return tensor.region().runs <= 1; }
bool one_element(const Tensor& tensor) { return tensor.elements() == 1; }

struct Axis {
  index extent, to, from;
};

}  // namespace

Status Statements::refused(const Verb& verb, const std::string& why) const {
  std::string form;
  for (std::size_t i = 0; i < verb.count; ++i) form += (i == 0 ? " of " : ", ") + describe(verb.tensors[i]);
  return unsupported("no Ascend C is written for " + std::string(verb.entry.verb) + form + " (" +
                     line_of(verb.entry.site) + "): " + why);
}

std::string Statements::operand(const Tensor& tensor) {
  const Named& named = names_.of(tensor);
  values_.push_back({names_.offset_of(tensor) * 8 / bits(tensor.dtype), {}});
  return named.identifier + (tensor.space == Space::global ? "_gm" : "") + "[$" + std::to_string(values_.size() - 1) +
         "]";
}

void Statements::put(const VerbRow& row, Places places) {
  if (!row.function.empty()) functions_.insert(filled(row.function, places));
  statements_.push_back({filled(row.call, places), std::exchange(values_, {}), 0, {}});
}

// What is known of the contents of a buffer, for selections and sums of masks.
void Statements::wrote(const Verb& verb) {
  if (verb.count == 0) return;
  const Tensor& to = verb.tensors[0];
  const std::string_view name = verb.entry.verb;
  if (name == "scalar_read") return;
  numbers_.erase(to.buffer);
  masks_.erase(to.buffer);
  if (name == "vfill" && one_element(to)) numbers_[to.buffer] = static_cast<float>(verb.scalar.value);
  if (name == "vcompare") masks_.insert(to.buffer);
}

Status Statements::add(const Verb& verb) {
  values_.clear();
  if (verb.entry.event != Event::stream_set && verb.entry.event != Event::stream_wait) last_ = {};
  if (verb.entry.event != Event::work) return flag(verb);
  if (!verb.described) return refused(verb, "the table has no such verb yet");
  const std::string_view name = verb.entry.verb;
  if (is_cube_verb(name)) return cube(verb);
  for (std::size_t i = 0; i < verb.count; ++i)
    if (verb.tensors[i].layout != Layout::nd || verb.tensors[i].flipped || type_of(verb.tensors[i].dtype).empty())
      return refused(verb, "operands must be rows of f32, f16 or bf16");
  Status status = name == "copy"                                   ? copy(verb)
                  : name == "vselect"                              ? select(verb)
                  : name == "vcast"                                ? cast(verb)
                  : name == "vreduce" || name == "vreduce_columns" ? reduce(verb)
                  : name == "scalar_read"                          ? scalar(verb)
                                                                   : arithmetic(verb);
  wrote(verb);
  return status;
}

Status Statements::flag(const Verb& verb) {
  const Entry& entry = verb.entry;
  Places places{{"event", queue_of(entry.from) + "_" + queue_of(entry.to)}, {"pipe", queue_of(entry.pipe)}};
  places["flag"] = "$0";
  if (entry.event == Event::set || entry.event == Event::wait) {
    values_ = {{entry.flag, {}}};
    put(entry.event == Event::set ? "set" : "wait", "two queues", std::move(places));
  } else if (entry.event == Event::barrier) {
    put("barrier", "a queue", std::move(places));
  } else if (entry.event == Event::barrier_all) {
    put("barrier_all", "a core", {});
  } else if (entry.event == Event::sync_all) {
    put("sync_all", mixed_ ? "cube and vector cores" : "all cores", {});
  } else if (entry.event == Event::stream_set || entry.event == Event::stream_wait) {
    return stream_flag(verb);
  } else {
    return refused(verb, "flags between cores are not in the table yet");
  }
  return {};
}

// One flag of a cube core is both vector cores', and one set of it is the two of the log.
Status Statements::stream_flag(const Verb& verb) {
  const Entry& entry = verb.entry;
  const bool same = last_.event == entry.event && last_.flag == entry.flag && last_.from == entry.from &&
                    last_.to == entry.to && last_.peer_stream < entry.peer_stream;
  last_ = entry;
  if (same) return {};
  values_ = {{entry.flag, {}}};
  put(entry.event == Event::stream_set ? "stream_set" : "stream_wait", "cube and vector cores",
      {{"pipe", queue_of(entry.from)}, {"flag", "$0"}});
  return {};
}

// Axes that lie side by side in both are one; what is left must be rows.
Status Statements::copy(const Verb& verb) {
  const NdTensor to = verb.to.present() ? verb.to : by_axes(verb.tensors[0]);
  const NdTensor from = verb.to.present() ? verb.from : by_axes(verb.tensors[1]);
  std::vector<Axis> axes;
  for (int i = 0; i < to.rank; ++i) {
    if (to.extent(i) == 1) continue;
    const Axis axis{to.extent(i), to.stride(i), from.stride(i)};
    const bool joins =
        !axes.empty() && axes.back().to == axis.to * axis.extent && axes.back().from == axis.from * axis.extent;
    if (joins)
      axes.back() = {axes.back().extent * axis.extent, axis.to, axis.from};
    else
      axes.push_back(axis);
  }
  const DType type = to.first.dtype;
  if (type_of(type).empty()) return refused(verb, "it moves f32, f16, bf16 and i32, not " + describe(to));
  const Axis one{1, 1, 1};
  const Axis columns = axes.empty() ? one : axes.back();
  const Axis rows = axes.size() == 2 ? axes.front() : Axis{1, columns.extent, columns.extent};
  if (axes.size() > 2 || columns.to != 1 || columns.from != 1)
    return refused(verb, "it must be rows of elements side by side, not " + describe(to) + " from " + describe(from));
  const bool in = to.first.space == Space::vector;
  if ((in ? from : to).first.space != Space::global || (in ? to : from).first.space != Space::vector)
    return refused(verb, "it goes between global memory and the vector memory");
  const index bytes = byte_size(type, columns.extent);
  const index filled_up = (bytes + 31) / 32 * 32;
  const index global_gap = byte_size(type, in ? rows.from : rows.to) - bytes;
  const index local_gap = (byte_size(type, in ? rows.to : rows.from) - filled_up) / 32;
  const bool one_row = rows.extent == 1;
  if (!one_row && (global_gap < 0 || local_gap < 0))
    return refused(verb, "rows must come one after another, " + describe(to) + " from " + describe(from));
  if (rows.extent > 4095 || bytes > 2097151) return refused(verb, "at most 4095 rows of 2 MiB");
  Places places{{"type", type_of(type)}, {"rows", text_of(rows.extent)}, {"bytes", text_of(bytes)}};
  places["to"] = operand(to.first);
  places["from"] = operand(from.first);
  places[in ? "from_gap" : "to_gap"] = text_of(one_row ? 0 : global_gap);
  places[in ? "to_gap" : "from_gap"] = text_of(one_row ? 0 : local_gap);
  put("copy", in ? "global to vector" : "vector to global", std::move(places));
  return {};
}

Status Statements::arithmetic(const Verb& verb) {
  const std::string_view name = verb.entry.verb;
  const Tensor &dst = verb.tensors[0], &a = verb.tensors[1], &b = verb.tensors[2];
  Places places{{"Op", call_of(verb.op)},
                {"count", text_of(dst.elements())},
                {"rows", text_of(dst.rows())},
                {"columns", text_of(dst.columns())},
                {"value", text_of(static_cast<float>(verb.scalar.value))},
                {"mode", mode_of(verb.compare)},
                {"sign", verb.op == VectorOp::mul   ? "*"
                         : verb.op == VectorOp::div ? "/"
                         : verb.op == VectorOp::sub ? "-"
                         : verb.op == VectorOp::add ? "+"
                                                    : std::string(npu::name(verb.op))}};
  places["dst_pitch"] = text_of(dst.rows() == 1 ? dst.columns() : dst.pitch);
  const bool narrows = bits(dst.dtype) == 16 && verb.count > 1 && a.dtype == DType::f32;
  for (std::size_t i = 0; i < verb.count; ++i)
    if (verb.tensors[i].dtype != DType::f32 && !narrows && (name != "vbinary" || verb.tensors[i].dtype != DType::f16))
      return refused(verb, "it computes in f32, and in f16 between tensors");
  for (std::size_t i = 1; i < verb.count; ++i)
    if (verb.tensors[i].dtype != dst.dtype && !narrows) return refused(verb, "all operands must have one type");
  if (verb.count > 1 && a.shape != dst.shape) return refused(verb, "the first operand must have the result's shape");
  places["dst"] = operand(dst);
  if (verb.count > 1) {
    places["a"] = operand(a);
    places["a_pitch"] = text_of(a.rows() == 1 ? a.columns() : a.pitch);
  }
  bool flat = true;
  for (std::size_t i = 0; i < verb.count; ++i) flat = flat && side_by_side(verb.tensors[i]);
  if (name == "vbinary") {
    if (places["Op"].empty()) return refused(verb, "the table has no such operation");
    places["b"] = operand(b);
    places["b_pitch"] = text_of(b.rows() == 1 ? 0 : b.pitch);
    const bool of_column = b.columns() == 1 && b.rows() == dst.rows() && b.pitch == 1 && b.dtype == DType::f32;
    if (narrows) {
      places["type"] = type_of(dst.dtype);
      if (of_column) return put("vbinary", "b is a column, rounded to 16 bits", std::move(places)), Status();
      if (b.dtype == dst.dtype && b.shape == dst.shape)
        return put("vbinary", "b of 16 bits, rounded to them", std::move(places)), Status();
      return refused(verb, "the second operand must be a tile of the result's type or a column of f32");
    }
    if (b.shape == dst.shape) return put("vbinary", flat ? "side by side" : "rows", std::move(places)), Status();
    if (b.columns() == dst.columns() && b.rows() == 1) return put("vbinary", "rows", std::move(places)), Status();
    if (!of_column || dst.dtype != DType::f32)
      return refused(verb, "the second operand must be a tile, a row or a column of f32");
    return put("vbinary", "b is a column", std::move(places)), Status();
  }
  const bool few = flat && dst.elements() <= scratch_floats;
  if (name == "vscalar") {
    if (verb.op == VectorOp::div && few && !narrows) return put("vscalar", "div", std::move(places)), Status();
    if (verb.op != VectorOp::add && verb.op != VectorOp::mul && verb.op != VectorOp::max && verb.op != VectorOp::min)
      return refused(verb, "with a number it adds, multiplies, takes the larger or smaller, or divides 512 elements");
    places["type"] = type_of(dst.dtype);
    return put("vscalar",
               narrows ? "rounded to 16 bits"
               : flat  ? "add, mul, max, min"
                       : "rows",
               std::move(places)),
           Status();
  }
  if (name == "vunary" && !narrows) {
    if (verb.op == VectorOp::rsqrt && few) return put("vunary", "rsqrt", std::move(places)), Status();
    if (verb.op == VectorOp::recip && few) return put("vunary", "recip", std::move(places)), Status();
    if (places["Op"].empty()) return refused(verb, "the table has no such function");
    return put("vunary", flat ? "exp, log, sqrt, abs" : "rows", std::move(places)), Status();
  }
  if (name == "vfill") return put("vfill", flat ? "side by side" : "rows", std::move(places)), Status();
  if (!flat || narrows) return refused(verb, "its elements must be f32, side by side");
  if (name == "viota") {
    const bool counts = dst.rows() == 1 && verb.iota.column_step == 1;
    if (!counts) return refused(verb, "it counts along a row");
    places["value"] = text_of(static_cast<float>(verb.iota.first));
    return put("viota", "a row", std::move(places)), Status();
  }
  if (name == "vcompare") return put("vcompare", "with a number", std::move(places)), Status();
  return refused(verb, "the table has no such verb yet");
}

Status Statements::select(const Verb& verb) {
  const auto& [dst, mask, yes, no] = verb.tensors;
  // The number is the other one of the two.
  const bool first = numbers_.count(yes.buffer) > 0 && one_element(yes);
  const Tensor &tile = first ? no : yes, &single = first ? yes : no;
  const auto number = numbers_.find(single.buffer);
  const bool tiles = dst.dtype == DType::f32 && mask.shape == dst.shape && tile.shape == dst.shape &&
                     side_by_side(dst) && side_by_side(mask) && side_by_side(tile);
  if (!tiles || !one_element(single) || number == numbers_.end())
    return refused(verb, "it chooses between a tile and a number");
  Places places{{"count", text_of(dst.elements())}, {"value", text_of(number->second)}};
  places["dst"] = operand(dst);
  places["mask"] = operand(mask);
  places["a"] = operand(tile);
  put("vselect", first ? "a number or a tile" : "or a number", std::move(places));
  return {};
}

Status Statements::cast(const Verb& verb) {
  const Tensor &dst = verb.tensors[0], &a = verb.tensors[1];
  Places places{{"count", text_of(dst.elements())}, {"rows", text_of(dst.rows())}, {"columns", text_of(dst.columns())},
                {"dst_pitch", text_of(dst.pitch)},  {"a_pitch", text_of(a.pitch)}, {"type", type_of(dst.dtype)}};
  const bool widens = dst.dtype == DType::f32 && bits(a.dtype) == 16;
  const bool narrows = a.dtype == DType::f32 && bits(dst.dtype) == 16;
  const bool flat = side_by_side(dst) && side_by_side(a);
  places["mode"] = widens ? "CAST_NONE" : "CAST_RINT";
  places["dst"] = operand(dst);
  places["a"] = operand(a);
  if (dst.dtype == a.dtype && dst.dtype != DType::bf16)
    return put("vcast", flat ? "of one type" : "rows of one type", places), Status();
  if (!widens && !narrows) return refused(verb, "it goes between f32 and 16 bits");
  put("vcast", flat ? "side by side" : "rows", std::move(places));
  return {};
}

Status Statements::reduce(const Verb& verb) {
  const Tensor &dst = verb.tensors[0], &a = verb.tensors[1];
  if (dst.dtype != DType::f32 || a.dtype != DType::f32) return refused(verb, "it reduces f32 to f32");
  Places places{{"rows", text_of(a.rows())},
                {"columns", text_of(a.columns())},
                {"a_pitch", text_of(a.rows() == 1 ? a.columns() : a.pitch)},
                {"count", text_of(a.elements())}};
  places["dst"] = operand(dst);
  places["a"] = operand(a);
  if (std::string_view(verb.entry.verb) == "vreduce_columns") {
    if (verb.op != VectorOp::column_sum || a.columns() != 1 || !side_by_side(a) || masks_.count(a.buffer) == 0)
      return refused(verb, "it counts what is set in a column that a comparison gave");
    put("vreduce_columns", "sum of a mask that is a column", std::move(places));
    return {};
  }
  const bool sum = verb.op == VectorOp::reduce_sum, most = verb.op == VectorOp::reduce_max;
  if (dst.rows() > 1 && dst.pitch != 1) return refused(verb, "results must lie side by side");
  places["Reduce"] = sum ? "Sum" : most ? "Max" : "Min";
  places["reduction"] = sum ? "sum" : most ? "largest" : "least";
  places["Op"] = sum ? "Add" : most ? "Max" : "Min";
  places["Whole"] = sum ? "WholeReduceSum" : most ? "WholeReduceMax" : "WholeReduceMin";
  places["order"] = sum ? "" : ", ReduceOrder::ORDER_ONLY_VALUE";
  places["neutral"] = sum ? "0.0f" : text_of(most ? -HUGE_VALF : HUGE_VALF);
  put("vreduce", "sum, max, min of f32", std::move(places));
  return {};
}

Status Statements::scalar(const Verb& verb) {
  if (verb.tensors[0].space != Space::vector) return refused(verb, "it reads the vector memory");
  Places places{{"value", text_of(static_cast<float>(verb.scalar.value))}};
  places["a"] = operand(verb.tensors[0]);
  put("scalar_read", "of the vector memory", std::move(places));
  return {};
}

}  // namespace inlay::npu::emit
