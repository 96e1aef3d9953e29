// The cube core's verbs. Tiles in L1 lie as the machine's do: blocks of 16 columns, each with all rows one after
// another.
#include "tile_machine/arithmetic/rounding.hpp"
#include "tile_machine/emit/statements.hpp"

namespace inlay::npu::emit {

namespace {

constexpr index most_extent = 4095, most_pitch = 65535, most_rows = 16384, most_repeats = 255;

index in_fractals(index extent) { return ceil_div(extent, fractal); }

// Rows and columns as they lie.
Tensor as_it_lies(const Tensor& tensor) { return tensor.flipped ? tensor.transposed() : tensor; }

}  // namespace

Status Statements::cube(const Verb& verb) {
  const std::string_view name = verb.entry.verb;
  if (name == "nd2nz") return to_fractals(verb);
  if (name == "mma") return multiply(verb);
  if (name == "drain") return drain(verb);
  return feed(verb);
}

Status Statements::to_fractals(const Verb& verb) {
  const Tensor &to = verb.tensors[0], &from = verb.tensors[1];
  if (to.dtype != DType::f16 && to.dtype != DType::bf16) return refused(verb, "it makes fractals of f16 and bf16");
  const index pitch = from.rows() == 1 ? from.columns() : from.pitch;
  if (to.flipped || from.flipped || from.space != Space::global || pitch > most_pitch || to.pitch > most_rows)
    return refused(verb, "rows of global memory, at most 65535 elements apart, become fractals");
  Places places{{"rows", text_of(to.rows())},
                {"columns", text_of(to.columns())},
                {"from_pitch", text_of(pitch)},
                {"to_pitch", text_of(to.pitch)}};
  places["to"] = operand(to);
  places["from"] = operand(from);
  put("nd2nz", "rows of global memory", std::move(places));
  return {};
}

// left [rows, depth], or right [depth, columns], of which the staged tile has rows or columns one after another.
Status Statements::feed(const Verb& verb) {
  const Tensor &to = verb.tensors[0], &from = verb.tensors[1], lies = as_it_lies(from);
  const bool left = to.space == Space::left;
  if (to.dtype != DType::f16 && to.dtype != DType::bf16) return refused(verb, "it feeds f16 and bf16");
  if (left && from.flipped) return refused(verb, "the left operand's rows must be the staged tile's");
  const Named& staged = names_.of(from);
  const auto first = static_cast<index>(from.begin - staged.begin) * 8 / bits(from.dtype);
  if (lies.pitch % fractal != 0 || first % (fractal * fractal) != 0)
    return refused(verb, "a staged tile must begin with a whole fractal, rows a multiple of 16");
  if (in_fractals(to.rows()) > most_repeats || in_fractals(to.columns()) > most_repeats)
    return refused(verb, "at most 255 fractals side by side");
  Places places{{"type", type_of(to.dtype)},
                {"rows", text_of(to.rows())},
                {"columns", text_of(to.columns())},
                {"pitch", text_of(lies.pitch)}};
  places["to"] = operand(to);
  places["from"] = operand(from);
  if (left)
    put("load_a", "rows", std::move(places));
  else
    put("load_b", from.flipped ? "of columns" : "of rows", std::move(places));
  return {};
}

Status Statements::multiply(const Verb& verb) {
  const auto& [sum, left, right, unused] = verb.tensors;
  static_cast<void>(unused);
  if (sum.dtype != DType::f32) return refused(verb, "it sums in f32");
  if (left.rows() > most_extent || right.columns() > most_extent || left.columns() > most_extent)
    return refused(verb, "at most 4095 rows and columns");
  // One row would be read as a vector.
  Places places{{"type", type_of(left.dtype)},
                {"rows", text_of(left.rows() == 1 ? fractal : left.rows())},
                {"columns", text_of(right.columns())},
                {"depth", text_of(left.columns())},
                {"init", verb.flag ? "true" : "false"}};
  places["sum"] = operand(sum);
  places["left"] = operand(left);
  places["right"] = operand(right);
  put("mma", "into f32", std::move(places));
  return {};
}

Status Statements::drain(const Verb& verb) {
  const Tensor &to = verb.tensors[0], &sum = verb.tensors[1];
  if (sum.dtype != DType::f32 || verb.flag || verb.scalar.value != 1 || to.space != Space::global ||
      to.layout != Layout::nd || to.flipped)
    return refused(verb, "sums of f32 go to rows of global memory as they are");
  Places places{{"type", type_of(to.dtype)},
                {"mode", to.dtype == DType::f32   ? "NoQuant"
                         : to.dtype == DType::f16 ? "F322F16"
                                                  : "F322BF16"},
                {"rows", text_of(to.rows())},
                {"columns", text_of(to.columns())},
                {"sum_rows", text_of(in_fractals(to.rows()) * fractal)},
                {"to_pitch", text_of(to.rows() == 1 ? to.columns() : to.pitch)}};
  if (places["type"].empty() || to.dtype == DType::i32) return refused(verb, "sums become f32, f16 or bf16");
  places["to"] = operand(to);
  places["sum"] = operand(sum);
  put("drain", "to global memory", std::move(places));
  return {};
}

}  // namespace inlay::npu::emit
