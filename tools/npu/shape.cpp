#include "tools/npu/shape.hpp"

#include <algorithm>
#include <charconv>

namespace inlay::tools {

Expected<Shape> Shape::parse(std::string_view text) {
  Shape shape;
  while (!text.empty()) {
    const std::string_view part = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), part.size() + 1));
    const std::size_t equals = part.find('=');
    if (equals == 0 || equals == part.npos || equals + 1 == part.size())
      return failure(invalid("--shape has " + (part.empty() ? "nothing before a comma" : std::string(part)) +
                             "; it must be key=value,key=value"));
    if (!shape.values_.emplace(part.substr(0, equals), part.substr(equals + 1)).second)
      return failure(invalid("--shape has " + std::string(part.substr(0, equals)) + " twice"));
  }
  return shape;
}

const std::string* Shape::given(const std::string& key, const std::string& otherwise) {
  asked_.push_back(key + "=" + otherwise);
  const auto found = values_.find(key);
  return found == values_.end() ? nullptr : &found->second;
}

void Shape::refuse(const std::string& key, const std::string& must) {
  if (status_.ok()) status_ = invalid("--shape " + key + " is " + values_[key] + "; it must be " + must);
}

void Shape::size(const std::string& key, index& value, index least) {
  constexpr index most = index{1} << 32;
  const std::string* text = given(key, std::to_string(value));
  if (text == nullptr) return;
  index number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  if (error == std::errc() && end == text->data() + text->size() && number >= least && number <= most)
    value = number;
  else
    refuse(key, "a number of " + std::to_string(least) + " or more, and " + std::to_string(most) + " at most");
}

void Shape::flag(const std::string& key, bool& value) {
  const std::string* text = given(key, value ? "1" : "0");
  if (text == nullptr) return;
  if (*text != "0" && *text != "1") refuse(key, "0 or 1");
  value = *text == "1";
}

void Shape::type(const std::string& key, DType& value) {
  const std::string* text = given(key, std::string(name(value)));
  if (text == nullptr) return;
  for (DType each :
       {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i4, DType::u4, DType::i32, DType::i64})
    if (*text == name(each)) return void(value = each);
  refuse(key, "a type, such as f32, f16, bf16 or i8");
}

std::size_t Shape::position(const std::string& key, std::size_t otherwise, std::initializer_list<const char*> known) {
  const std::string* text = given(key, known.begin()[otherwise]);
  const auto found = text == nullptr ? known.end() : std::find(known.begin(), known.end(), *text);
  if (text == nullptr || found != known.end())
    return text == nullptr ? otherwise : static_cast<std::size_t>(found - known.begin());
  std::string all;
  for (const char* each : known) all.append(all.empty() ? "" : ", ").append(each);
  refuse(key, "one of " + all);
  return otherwise;
}

// Nobody is to look at what is too large.
Shape::Placed Shape::place(const Tensor& tensor) {
  const index most = index{1} << (tensor.is_list ? 26 : 44), size = tensor.size();
  if (size > most && status_.ok())
    status_ = invalid(tensor.is_list ? "--shape asks for a list of " + std::to_string(size) +
                                           " numbers; it must have " + std::to_string(most) + " at most"
                                     : "--shape asks for a tensor of more than 2^44 elements");
  return status_.ok() ? AbsentTensors::place(tensor) : Placed{nullptr, tensor.dtype};
}

Status Shape::finished() {
  std::string known;
  for (const std::string& each : asked_) known.append(known.empty() ? "" : ",").append(each);
  for (const auto& given : values_) {
    const auto is_asked = [&](const std::string& each) { return each.substr(0, each.find('=')) == given.first; };
    if (std::none_of(asked_.begin(), asked_.end(), is_asked))
      return invalid("--shape has " + given.first + "; it can have " + known);
  }
  return std::move(status_);
}

std::map<std::string, PlanOperator>& planned_operators() {
  static std::map<std::string, PlanOperator> operators;
  return operators;
}

}  // namespace inlay::tools
