#include "tools/onnx/verify.hpp"

#include <onnx/onnx_pb.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "tools/onnx/node.hpp"

namespace inlay::tools {

namespace {

namespace fs = std::filesystem;

Status parse(const fs::path& path, google::protobuf::Message& message) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return {StatusCode::not_found, path.string() + ": cannot be read"};
  // Protobuf reports what it dislikes to standard error by itself; our line says it once.
  google::protobuf::LogSilencer silence;
  if (!message.ParsePartialFromIstream(&file) || !message.IsInitialized())
    return {StatusCode::corrupt_data, path.string() + ": not what protobuf expects"};
  return {};
}

Expected<OnnxTensor> read_file(const fs::path& path) {
  onnx::TensorProto proto;
  if (Status status = parse(path, proto); !status.ok()) return failure(std::move(status));
  auto tensor = read_tensor(proto);
  if (!tensor && tensor.error().code() == StatusCode::corrupt_data)
    return failure(StatusCode::corrupt_data, path.string() + ": " + std::string(tensor.error().message()));
  return tensor;
}

// Bounds by type: products and sums of a few hundred f32 terms; two roundings of a half and the f16
// arithmetic of the expected values; nothing for integers.
struct Bound {
  double absolute, relative;
};
Bound bound(DType type) {
  switch (type) {
    case DType::f32: return {1e-5, 1e-5};
    case DType::f16: return {2e-3, 2e-3};
    case DType::bf16: return {1e-2, 1.6e-2};
    default: return {0, 0};
  }
}

Verdict compare(const OnnxTensor& got, const OnnxTensor& expected, const std::string& name) {
  if (got.dtype != expected.dtype || got.dims != expected.dims)
    return {Verdict::Kind::fail, name + " has another shape or type"};
  const Bound allowed = bound(got.dtype);
  double largest = 0, excess = 0;
  for (index i = 0; i < got.size(); ++i) {
    const double g = got.get(i), e = expected.get(i);
    if (g == e || (std::isnan(g) && std::isnan(e))) continue;
    const double error = std::abs(g - e);
    largest = std::fmax(largest, std::isnan(error) ? HUGE_VAL : error);
    if (!(error <= allowed.absolute + allowed.relative * std::abs(e))) excess = HUGE_VAL;
  }
  if (excess > 0) return {Verdict::Kind::fail, name + " differs by up to " + std::to_string(largest)};
  return {};
}

// Names come from the file, and may hold anything.
std::string one_line(std::string_view text) {
  std::string line(text);
  for (char& c : line)
    if (static_cast<unsigned char>(c) < ' ' || c == 127) c = '?';
  return line;
}

OnnxNode read_node(const onnx::NodeProto& proto) {
  OnnxNode node;
  node.op_type = proto.op_type();
  for (const onnx::AttributeProto& attribute : proto.attribute()) {
    auto& value = node.attributes[attribute.name()];
    switch (attribute.type()) {
      case onnx::AttributeProto::INT: value = attribute.i(); break;
      case onnx::AttributeProto::FLOAT: value = static_cast<double>(attribute.f()); break;
      case onnx::AttributeProto::STRING: value = attribute.s(); break;
      default:  // that it is there is known, under a name that no operator reads
        node.attributes.erase(attribute.name());
        node.attributes[attribute.name() + " of type " + std::to_string(attribute.type())];
    }
  }
  for (const std::string& name : proto.output()) node.outputs.push_back(!name.empty());
  return node;
}

}  // namespace

Expected<std::vector<std::string>> find_cases(const std::vector<std::string>& directories) {
  std::vector<std::string> cases;
  for (const std::string& directory : directories) {
    std::error_code error;
    if (!fs::is_directory(directory, error)) return failure(StatusCode::not_found, directory + ": not a directory");
    const std::size_t before = cases.size();
    if (fs::exists(fs::path(directory) / "model.onnx", error)) {
      cases.push_back(directory);
    } else {
      for (const auto& entry : fs::directory_iterator(directory, error))
        if (fs::exists(entry.path() / "model.onnx", error)) cases.push_back(entry.path().string());
    }
    if (cases.size() == before)
      return failure(StatusCode::not_found, directory + ": holds no model.onnx, nor does a folder in it");
    std::sort(cases.begin() + static_cast<std::ptrdiff_t>(before), cases.end());
  }
  return cases;
}

Expected<Verdict> verify_case(exec::Eager& run, const std::string& directory) {
  const auto skip = [](std::string_view reason) { return Verdict{Verdict::Kind::skip, std::string(reason)}; };
  onnx::ModelProto model;
  if (Status status = parse(fs::path(directory) / "model.onnx", model); !status.ok()) return failure(std::move(status));
  if (model.graph().node_size() != 1)
    return skip(std::to_string(model.graph().node_size()) + " nodes; a case is one operator");
  const onnx::NodeProto& proto = model.graph().node(0);
  OnnxNode node = read_node(proto);
  for (const onnx::OperatorSetIdProto& set : model.opset_import())
    if (set.domain() == proto.domain() || (set.domain() == "ai.onnx" && proto.domain().empty()))
      node.opset = static_cast<int>(std::clamp<std::int64_t>(set.version(), 0, latest_opset + 1));
  if (!proto.domain().empty() && proto.domain() != "ai.onnx")
    return skip("no operator of the domain " + proto.domain());

  // Files are numbered by the graph's inputs and outputs; the node names them, some left out.
  const fs::path data = fs::path(directory) / "test_data_set_0";
  for (const std::string& name : proto.input()) {
    node.inputs.emplace_back();
    for (int i = 0; i < model.graph().input_size(); ++i) {
      if (name.empty() || model.graph().input(i).name() != name) continue;
      auto tensor = read_file(data / ("input_" + std::to_string(i) + ".pb"));
      if (!tensor && tensor.error().code() == StatusCode::unsupported) return skip(tensor.error().message());
      if (!tensor) return failure(std::move(tensor.error()));
      node.inputs.back() = std::move(*tensor);
    }
  }
  auto outputs = run_node(run, node);
  if (!outputs && outputs.error().code() == StatusCode::unsupported) return skip(outputs.error().message());
  if (!outputs) return Verdict{Verdict::Kind::fail, std::string(outputs.error().message())};

  for (int o = 0; o < proto.output_size(); ++o) {
    if (proto.output(o).empty()) continue;
    for (int i = 0; i < model.graph().output_size(); ++i) {
      if (model.graph().output(i).name() != proto.output(o)) continue;
      auto expected = read_file(data / ("output_" + std::to_string(i) + ".pb"));
      if (!expected && expected.error().code() == StatusCode::unsupported) return skip(expected.error().message());
      if (!expected) return failure(std::move(expected.error()));
      const auto at = static_cast<std::size_t>(o);
      if (at >= outputs->size() || !(*outputs)[at]) return skip("no output " + proto.output(o));
      const Verdict verdict = compare(*(*outputs)[at], *expected, proto.output(o));
      if (verdict.kind != Verdict::Kind::pass) return verdict;
    }
  }
  return Verdict{};
}

int verify(exec::Eager& run, const std::vector<std::string>& directories, std::ostream& out, std::ostream& errors) {
  auto cases = find_cases(directories);
  if (!cases) {
    errors << "inlay: " << cases.error().message() << '\n';
    return 2;
  }
  int passed = 0, failed = 0, skipped = 0;
  for (const std::string& directory : *cases) {
    const std::string name = fs::path(directory).lexically_normal().filename().string();
    const auto verdict = verify_case(run, directory);
    if (!verdict) {  // files that are no case: the others are none the worse
      ++failed;
      out << "FAIL " << name << ' ' << one_line(verdict.error().message()) << '\n';
      continue;
    }
    switch (verdict->kind) {
      case Verdict::Kind::pass:
        ++passed;
        out << "PASS " << name << '\n';
        break;
      case Verdict::Kind::fail:
        ++failed;
        out << "FAIL " << name << ' ' << one_line(verdict->detail) << '\n';
        break;
      case Verdict::Kind::skip:
        ++skipped;
        out << "SKIP " << name << ' ' << one_line(verdict->detail) << '\n';
        break;
    }
  }
  out << passed << " passed, " << failed << " failed, " << skipped << " skipped" << std::endl;
  return failed == 0 ? 0 : 1;
}

}  // namespace inlay::tools
