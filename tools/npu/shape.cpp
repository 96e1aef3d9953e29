#include "tools/npu/shape.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>

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

index Shape::size(const std::string& key, index otherwise, index least) {
  constexpr index most = index{1} << 32;
  const std::string* text = given(key, std::to_string(otherwise));
  if (text == nullptr) return otherwise;
  index value = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error == std::errc() && end == text->data() + text->size() && value >= least && value <= most) return value;
  refuse(key, "a number of " + std::to_string(least) + " or more, and " + std::to_string(most) + " at most");
  return otherwise;
}

bool Shape::flag(const std::string& key, bool otherwise) {
  const std::string* text = given(key, otherwise ? "1" : "0");
  if (text == nullptr) return otherwise;
  if (*text != "0" && *text != "1") refuse(key, "0 or 1");
  return *text == "1";
}

DType Shape::type(const std::string& key, DType otherwise) {
  const std::string* text = given(key, std::string(name(otherwise)));
  if (text == nullptr) return otherwise;
  for (DType each :
       {DType::f32, DType::f16, DType::bf16, DType::i8, DType::u8, DType::i4, DType::u4, DType::i32, DType::i64})
    if (*text == name(each)) return each;
  refuse(key, "a type, such as f32, f16, bf16 or i8");
  return otherwise;
}

std::string Shape::word(const std::string& key, const std::vector<std::string>& known) {
  const std::string* text = given(key, known.front());
  if (text == nullptr || std::find(known.begin(), known.end(), *text) != known.end())
    return text == nullptr ? known.front() : *text;
  std::string all;
  for (const std::string& each : known) all.append(all.empty() ? "" : ", ").append(each);
  refuse(key, "one of " + all);
  return known.front();
}

// Addresses of their own, a page between, which nobody looks at.
void* Shape::room(DType type, const index* extents, int rank) {
  index elements = 1;
  for (int axis = 0; axis < rank; ++axis) elements = saturating_multiply(elements, extents[axis]);
  constexpr std::uintptr_t page = 4096;
  const std::uintptr_t address = next_;
  const index most = index{1} << 44;
  if (elements > most && status_.ok()) status_ = invalid("--shape asks for a tensor of more than 2^44 elements");
  next_ += (static_cast<std::uintptr_t>(byte_size(type, std::min(elements, most))) / page + 2) * page;
  return reinterpret_cast<void*>(address);
}

void* Shape::numbers(DType type, const index* extents, int rank, const std::function<index(index)>& value) {
  constexpr index most = index{1} << 26;
  index count = 1;
  for (int axis = 0; axis < rank; ++axis) count = saturating_multiply(count, extents[axis]);
  if (count > most && status_.ok())
    status_ = invalid("--shape asks for a list of " + std::to_string(count) + " numbers; it must have " +
                      std::to_string(most) + " at most");
  if (!status_.ok()) return nullptr;  // nobody is to look at it
  lists_.emplace_back(static_cast<std::size_t>(byte_size(type, count)));
  std::byte* const bytes = lists_.back().data();
  for (index i = 0; i < count; ++i) {
    const std::int64_t wide = value(i);
    const auto narrow = static_cast<std::int32_t>(wide);
    if (type == DType::i64)
      std::memcpy(bytes + 8 * i, &wide, 8);
    else
      std::memcpy(bytes + 4 * i, &narrow, 4);
  }
  return bytes;
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
