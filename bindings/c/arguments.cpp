#include "bindings/c/arguments.hpp"

#include <cmath>
#include <cstdio>
#include <limits>

#include <inlay/core/dlpack.hpp>
#include <inlay/core/quote.hpp>
#include <inlay/core/text.hpp>

#include "bindings/c/code.hpp"

namespace inlay::c {

namespace {

Status wrong(const FieldRow& field, std::string_view what) { return invalid(Text(field.name) + " " + what); }

template <int Rank> Expected<AnyView> view_of(const DLTensor& tensor) {
  const auto view = from_dlpack<Rank>(tensor);
  if (!view) return failure(StatusCode::invalid_argument, view.error().message());
  AnyView any{.data = view->data, .dtype = view->dtype};
  for (std::size_t d = 0; d < Rank; ++d) any.extents[d] = view->extents[d], any.strides[d] = view->strides[d];
  return any;
}

// What from_dlpack takes for granted.
Status check_memory(const DLTensor& tensor, int rank) {
  if (tensor.ndim == rank && tensor.shape == nullptr) return invalid("DLTensor has no shape; it must have one");
  const auto begin = reinterpret_cast<std::uintptr_t>(tensor.data);
  if (tensor.byte_offset > std::numeric_limits<std::uintptr_t>::max() - begin ||
      (tensor.data == nullptr && tensor.byte_offset != 0))
    return invalid("DLTensor has byte_offset " + std::to_string(tensor.byte_offset) + " from " +
                   (tensor.data == nullptr ? "no data" : "data which it leads out of memory") + "; it must be 0");
  return {};
}

Status read_tensor(const DLTensor& tensor, int rank, AnyView& view) {
  if (Status status = check_memory(tensor, rank); !status.ok()) return status;
  Expected<AnyView> read = [&]() -> Expected<AnyView> {
    switch (rank) {
      case 1: return view_of<1>(tensor);
      case 2: return view_of<2>(tensor);
      case 3: return view_of<3>(tensor);
      case 4: return view_of<4>(tensor);
      default: return view_of<max_rank>(tensor);
    }
  }();
  if (!read) return std::move(read.error());
  view = *read;
  return {};
}

Status read_list(const FieldRow& field, const inlay_tensor_list& list, std::vector<AnyView>& views) {
  constexpr std::size_t most = std::size_t{1} << 24;
  if (list.count > most)
    return wrong(field, "is a list of " + number(list.count) + "; it must have at most " + number(most) + " tensors");
  if (list.count > 0 && list.tensors == nullptr)
    return wrong(field, "is a list of " + number(list.count) + " at no address; its tensors must not be null");
  for (std::size_t i = 0; i < list.count; ++i) {
    const Text name = Text(field.name) + "[" + number(i) + "]";
    if (list.tensors[i] == nullptr) return invalid(name + " is null; it must be a tensor");
    if (Status status = read_tensor(*list.tensors[i], field.rank, views.emplace_back()); !status.ok())
      return about(name, status);
  }
  return {};
}

Status read_number(const FieldRow& field, double given, float& result) {
  // Infinities and NaN are floats: whether they make sense is the operator's to say.
  if (std::isfinite(given) && std::abs(given) > std::numeric_limits<float>::max()) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%g", given);
    return wrong(field, "is " + Text(digits) + "; it must lie within a float's range, up to 3.4e38");
  }
  result = static_cast<float>(given);
  return {};
}

Status read_word(const FieldRow& field, const char* word, index& result) {
  if (word == nullptr) return wrong(field, "is a word that is null; it must be one");
  Text known;
  for (std::size_t i = 0; field.words[i] != nullptr; ++i) {
    if (std::string_view(field.words[i]) == word) {
      result = field.value_of_word(i);
      return {};
    }
    known += Text(known.empty() ? "" : " ") + field.words[i];
  }
  return wrong(field, "is " + Text(quote(word)) + "; it must be one of " + known);
}

Status read(const FieldRow& field, const inlay_argument& argument, Value& value) {
  if (argument.kind != field.kind)
    return wrong(field, "is given " + Text(name_of_kind(argument.kind)) + " (kind " + number(argument.kind) +
                            "); it must be " + name_of_kind(field.kind) + " (kind " + number(field.kind) + ")");
  if (argument.reserved != 0)
    return wrong(field, "has its member reserved set to " + number(argument.reserved) + "; it must be 0");
  switch (argument.kind) {
    case INLAY_TENSOR: return about(field.name, read_tensor(*argument.tensor, field.rank, value.view));
    case INLAY_LIST: return read_list(field, argument.list, value.list);
    case INLAY_NUMBER: return read_number(field, argument.number, value.number);
    case INLAY_WORD: return read_word(field, argument.word, value.integer);
    case INLAY_FLAG:
      if (argument.integer != 0 && argument.integer != 1)
        return wrong(field, "is " + number(argument.integer) + "; it must be 0 or 1");
      [[fallthrough]];
    default: value.integer = argument.integer; return {};
  }
}

Text names(std::span<const FieldRow> fields) {
  Text all;
  for (const FieldRow& field : fields) all += Text(all.empty() ? "" : " ") + field.name;
  return all;
}

}  // namespace

std::string_view name_of_kind(int kind) {
  switch (kind) {
    case INLAY_TENSOR: return "a tensor";
    case INLAY_LIST: return "a list of tensors";
    case INLAY_INTEGER: return "an integer";
    case INLAY_NUMBER: return "a number";
    case INLAY_FLAG: return "a flag";
    case INLAY_WORD: return "a word";
    default: return "something of no kind";
  }
}

Status set_fields(std::span<const FieldRow> fields, Arguments arguments, void* bound) {
  bool given[max_fields] = {};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const inlay_argument& argument = arguments[i];
    if (argument.name == nullptr)
      return invalid("argument " + number(i) + " has no name; it must be one of " + names(fields));
    std::size_t at = 0;
    while (at < fields.size() && std::string_view(fields[at].name) != argument.name) ++at;
    if (at == fields.size())
      return invalid("there is no argument " + Text(quote(argument.name)) + "; it must be one of " + names(fields));
    const FieldRow& field = fields[at];
    if (given[at]) return wrong(field, "is given twice; it must be given once");
    given[at] = true;
    const bool left_out = field.kind == INLAY_TENSOR && argument.kind == INLAY_TENSOR && argument.tensor == nullptr;
    if (left_out) continue;
    Value value;
    if (Status status = read(field, argument, value); !status.ok()) return status;
    field.set(bound, value);
  }
  return {};
}

}  // namespace inlay::c
