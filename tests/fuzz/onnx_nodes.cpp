// Nodes as a file could hold them: one that ONNX allows, of every operator, and up to three things about it changed.
// It is refused with a reason or it runs; nothing is read outside its tensors.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

#include <inlay/cpu.hpp>

#include "tools/onnx/node.hpp"

namespace inlay::tools {
namespace {

// Numbers out of the fuzzer's bytes; zeros when they are used up.
class Bytes {
 public:
  Bytes(const std::uint8_t* data, std::size_t size) : next_(data), end_(data + size) {}
  bool more() const { return next_ != end_; }
  index below(index limit) { return more() ? *next_++ % limit : 0; }
  template <class T> T one_of(std::initializer_list<T> list) {
    return list.begin()[below(static_cast<index>(list.size()))];
  }

 private:
  const std::uint8_t *next_, *end_;
};

using Dims = std::vector<index>;

struct Maker {
  Bytes& bytes;
  OnnxNode node = {};

  void input(DType type, Dims dims) {
    OnnxTensor t(type, std::move(dims));
    const bool below_zero = type == DType::f32 || type == DType::f16 || type == DType::bf16 || type == DType::i8;
    for (index i = 0; i < t.size(); ++i) t.set(i, static_cast<double>(bytes.below(5)) - (below_zero ? 2 : 0));
    node.inputs.emplace_back(std::move(t));
  }
  void none() { node.inputs.emplace_back(); }
};

// Every operator with small shapes.
OnnxNode valid(Bytes& bytes) {
  Maker make{bytes};
  OnnxNode& node = make.node;
  const DType type = bytes.one_of({DType::f32, DType::f16, DType::bf16});
  const DType byte = bytes.one_of({DType::u8, DType::i8});
  const index a = 1 + bytes.below(3), b = 1 + bytes.below(3), c = 1 + bytes.below(4), d = 2 + 2 * bytes.below(3);
  node.outputs.assign(static_cast<std::size_t>(1 + bytes.below(4)), true);
  switch (bytes.below(15)) {
    case 0: {
      node.op_type = "Attention";
      const index group = 1 + bytes.below(2), past = bytes.below(3);
      const bool fused = bytes.below(2) == 1;
      if (fused) {
        node.attributes["q_num_heads"] = b * group, node.attributes["kv_num_heads"] = b;
        make.input(type, {a, c, b * group * d});
        make.input(type, {a, c + 1, b * d});
        make.input(type, {a, c + 1, b * d});
      } else {
        make.input(type, {a, b * group, c, d});
        make.input(type, {a, b, c + 1, d});
        make.input(type, {a, b, c + 1, d});
      }
      if (bytes.below(2))
        make.input(
            bytes.one_of({DType::boolean, type}),
            bytes.one_of<Dims>(
                {{c, past + c + 1}, {1, c, past + c + 1}, {a, 1, 1, past + c + 1}, {a, b * group, c, past + c + 1}}));
      else
        make.none();
      if (past > 0) {
        make.input(type, {a, b, past, d});
        make.input(type, {a, b, past, d});
      }
      node.attributes["qk_matmul_output_mode"] = bytes.below(4);
      node.attributes["is_causal"] = bytes.below(2);
      node.attributes["softcap"] = static_cast<double>(bytes.below(3));
      break;
    }
    case 1: {
      node.op_type = "RotaryEmbedding";
      if (bytes.below(2)) {
        node.attributes["num_heads"] = b;
        make.input(type, {a, c, b * d});
      } else {
        make.input(type, {a, b, c, d});
      }
      const index turned = bytes.below(2) ? d : d - d / 2 % 2 - d / 2;
      const index half = turned / 2;
      node.attributes["rotary_embedding_dim"] = 2 * half;
      node.attributes["interleaved"] = bytes.below(2);
      const bool by_position = bytes.below(2) == 1;
      const Dims cache = by_position ? Dims{8, half} : Dims{a, c, half};
      make.input(type, cache);
      make.input(type, cache);
      if (by_position) make.input(DType::i64, {a, c});
      break;
    }
    case 2:
      node.op_type = "TensorScatter";
      make.input(type, {a, b, c + 4, d});
      make.input(type, {a, b, c, d});
      if (bytes.below(2)) make.input(DType::i64, {a});
      break;
    case 3:
      node.op_type = "RMSNormalization";
      make.input(type, {a, b, d});
      node.attributes["axis"] = bytes.below(2) ? std::int64_t{-1} : std::int64_t{1};
      make.input(type, std::get<std::int64_t>(node.attributes["axis"]) < 0 ? Dims{d} : Dims{b, d});
      break;
    case 4:
      node.op_type = "Softmax";
      make.input(type, {a, b, c});
      node.attributes["axis"] = bytes.below(6) - 3;
      break;
    case 5:
      node.op_type = "SwiGLU";
      make.input(type, {a, d});
      make.input(type, {a, d});
      break;
    case 6:
      node.op_type = "Gelu";
      make.input(type, {a, b, c});
      break;
    case 7:
      node.op_type = "MatMul";
      make.input(type, {a, b, c});
      make.input(type, bytes.one_of<Dims>({{a, c, d}, {c, d}, {c}}));
      break;
    case 8:
      node.op_type = "MatMulInteger";
      make.input(byte, {b, c});
      make.input(bytes.one_of({DType::u8, DType::i8}), {c, d});
      make.input(byte, bytes.below(2) ? Dims{} : Dims{b});
      if (bytes.below(2)) make.input(node.inputs[1]->dtype, bytes.below(2) ? Dims{1} : Dims{d});
      break;
    case 9:
      node.op_type = "QLinearMatMul";
      make.input(byte, {a, b, c});
      make.input(DType::f32, {1});
      make.input(byte, {1});
      make.input(byte, {a, c, d});
      make.input(DType::f32, bytes.below(2) ? Dims{1} : Dims{d});
      make.input(byte, {1});
      make.input(DType::f32, {1});
      make.input(byte, {1});
      break;
    case 10:
    case 11: {
      const bool to_codes = bytes.below(2) == 1;
      node.op_type = to_codes ? "QuantizeLinear" : "DequantizeLinear";
      const DType code = bytes.one_of({DType::u8, DType::i8, DType::u4, DType::i4});
      make.input(to_codes ? type : code, {a, b, d});
      const Dims scale = bytes.one_of<Dims>({{}, {b}, {a, b, d / 2}});
      if (scale.size() == 3) node.attributes["block_size"] = std::int64_t{2}, node.attributes["axis"] = std::int64_t{2};
      make.input(type, scale);
      if (bytes.below(2)) make.input(code, scale);
      break;
    }
    case 12:
      node.op_type = "Gather";
      make.input(type, {8, d});
      make.input(bytes.one_of({DType::i32, DType::i64}), {a, b});
      break;
    case 13:
      node.op_type = "ArgMax";
      make.input(DType::f32, {a, b, c});
      node.attributes["axis"] = bytes.below(3);
      node.attributes["keepdims"] = bytes.below(2);
      break;
    default:
      node.op_type = "Cast";
      make.input(type, {a, b});
      node.attributes["to"] = bytes.below(27);
  }
  return std::move(make.node);
}

// The same bytes, cut or continued with zeros, in another shape; as it was, if no file can hold that or it is more than
// this program's limit of memory should see.
void reshape(OnnxTensor& tensor, DType type, Dims dims) {
  constexpr index most = index{1} << 22;
  if (OnnxTensor::bytes_of(type, dims).value_or(most + 1) > most) return;
  OnnxTensor other(type, std::move(dims));
  for (std::size_t i = 0; i < other.bytes.size() && i < tensor.bytes.size(); ++i) other.bytes[i] = tensor.bytes[i];
  tensor = std::move(other);
}

void change(OnnxNode& node, Bytes& bytes) {
  static constexpr DType types[] = {DType::f32, DType::f16, DType::bf16, DType::i8,  DType::u8,
                                    DType::i4,  DType::u4,  DType::i32,  DType::i64, DType::boolean};
  if (node.inputs.empty()) return;
  auto& input = node.inputs[static_cast<std::size_t>(bytes.below(static_cast<index>(node.inputs.size())))];
  const index kind = bytes.below(8);
  if (kind == 0) {
    static constexpr const char* names[] = {
        "axis",     "q_num_heads",          "kv_num_heads",          "num_heads",   "block_size", "to", "is_causal",
        "keepdims", "rotary_embedding_dim", "qk_matmul_output_mode", "output_dtype"};
    node.attributes[names[bytes.below(std::size(names))]] =
        bytes.one_of<std::int64_t>({-1, 0, 1, 2, 3, 5, -4, INT64_MAX, INT64_MIN, index{1} << 32});
  } else if (kind == 1) {
    static constexpr const char* names[] = {"scale", "softcap", "epsilon", "alpha"};
    node.attributes[names[bytes.below(4)]] = bytes.one_of({0.0, -1.0, 1e300, HUGE_VAL, -HUGE_VAL, std::nan("")});
  } else if (kind == 2) {
    input.reset();
  } else if (kind == 3) {
    node.inputs.push_back(node.inputs[static_cast<std::size_t>(bytes.below(static_cast<index>(node.inputs.size())))]);
  } else if (input && kind == 4) {
    reshape(*input, types[bytes.below(std::size(types))], input->dims);
  } else if (input && kind == 5 && input->size() > 0) {
    input->bytes[static_cast<std::size_t>(bytes.below(static_cast<index>(input->bytes.size())))] =
        static_cast<unsigned char>(bytes.below(256));
  } else if (input) {
    Dims dims = input->dims;
    const auto at = static_cast<std::ptrdiff_t>(bytes.below(static_cast<index>(dims.size()) + 1));
    if (at == static_cast<std::ptrdiff_t>(dims.size()) || kind == 6) {
      if (bytes.below(2) && !dims.empty())
        dims.erase(dims.begin() + std::min<std::ptrdiff_t>(at, static_cast<std::ptrdiff_t>(dims.size()) - 1));
      else
        dims.insert(dims.begin() + at, bytes.below(4));
    } else {
      const index old = dims[static_cast<std::size_t>(at)];
      dims[static_cast<std::size_t>(at)] =
          bytes.one_of<index>({0, 1, old + 1, std::max<index>(old - 1, 0), 2 * old, 40});
      if (dims[static_cast<std::size_t>(at)] == 0 && dims.size() > 1)
        dims[static_cast<std::size_t>(at) ? 0 : 1] = bytes.one_of<index>({1, index{1} << 14, index{1} << 20});
    }
    reshape(*input, input->dtype, dims);
  }
}

}  // namespace
}  // namespace inlay::tools

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace inlay;
  static exec::Eager run{Cpu(serial())};
  tools::Bytes bytes(data, size);
  tools::OnnxNode node = tools::valid(bytes);
  for (inlay::index changes = bytes.below(4); changes > 0; --changes) tools::change(node, bytes);
  const auto outputs = tools::run_node(run, node);
  if (!outputs && outputs.error().message().empty()) std::abort();  // a refusal says why
  return 0;
}
