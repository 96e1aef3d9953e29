// ggml's CPY, CONT and DUP: the elements of one tensor in the order of another, as they are, as another type of float,
// or into blocks and out of them.
#include <cstring>

#include "bindings/ggml/operators.hpp"
#include "bindings/ggml/tensor.hpp"

namespace inlay::ggml_binding {

namespace {

constexpr index elements_a_task = 8192;

// Of element `i`, in the order of the extents.
std::size_t byte_of(const ggml_tensor* tensor, index i) {
  std::size_t at = 0;
  for (int d = 0; d < 4; ++d) {
    at += static_cast<std::size_t>(i % tensor->ne[d]) * tensor->nb[d];
    i /= tensor->ne[d];
  }
  return at;
}

// move(from, to, count, step_from, step_to) for stretches that lie in one row of both.
template <class Move>
void each_stretch(const Context& context, const ggml_tensor* from, const ggml_tensor* to, Move&& move) {
  const index stretch = from->ne[0] == to->ne[0] ? to->ne[0] : 1, count = ggml_nelements(to) / stretch;
  const Work work{.bytes = static_cast<double>(ggml_nbytes(from) + ggml_nbytes(to))};
  context.cpu.parallel().ranges(count, elements_a_task / (stretch + 1) + 1, work, [&](index begin, index end) {
    for (index i = begin; i < end; ++i)
      move(static_cast<const char*>(from->data) + byte_of(from, i * stretch),
           static_cast<char*>(to->data) + byte_of(to, i * stretch), stretch);
  });
}

// Elements of one type, which is any that has no blocks.
void copy_elements(const Context& context, const ggml_tensor* from, const ggml_tensor* to) {
  const std::size_t size = ggml_type_size(to->type), step_from = from->nb[0], step_to = to->nb[0];
  const bool dense = step_from == size && step_to == size;
  each_stretch(context, from, to, [=](const char* source, char* target, index count) {
    if (dense) {
      std::memcpy(target, source, static_cast<std::size_t>(count) * size);
      return;
    }
    const auto each = [&](auto element) {
      for (index i = 0; i < count; ++i, source += step_from, target += step_to) {
        std::memcpy(&element, source, sizeof element);
        std::memcpy(target, &element, sizeof element);
      }
    };
    switch (size) {
      case 1: return each(std::uint8_t{});
      case 2: return each(std::uint16_t{});
      case 4: return each(std::uint32_t{});
      default: return each(std::uint64_t{});
    }
  });
}

void convert_elements(const Context& context, const ggml_tensor* from, const ggml_tensor* to) {
  with_float_type(from->type, [&]<class S>(std::type_identity<S>) {
    with_float_type(to->type, [&]<class T>(std::type_identity<T>) {
      const index step_from = stride_of(from, 0), step_to = stride_of(to, 0);
      each_stretch(context, from, to, [=](const char* source, char* target, index count) {
        const S* x = reinterpret_cast<const S*>(source);
        T* y = reinterpret_cast<T*>(target);
        for (index i = 0; i < count; ++i) y[i * step_to] = static_cast<T>(static_cast<float>(x[i * step_from]));
      });
    });
  });
}

// body(source, target) for rows that are as wide in both.
template <class Body>
void each_row(const Context& context, const ggml_tensor* from, const ggml_tensor* to, Work an_element, Body&& body) {
  const Work work = static_cast<double>(ggml_nelements(to)) * an_element;
  context.cpu.parallel().ranges(ggml_nrows(to), 1, work, [&](index begin, index end) {
    for (index row = begin; row < end; ++row)
      body(static_cast<const char*>(from->data) + byte_of(from, row * to->ne[0]),
           static_cast<char*>(to->data) + byte_of(to, row * to->ne[0]));
  });
}

void copy_blocks(const Context& context, const ggml_tensor* from, const ggml_tensor* to) {
  const std::size_t bytes = ggml_row_size(to->type, to->ne[0]);
  const Work work{.bytes = 2 * static_cast<double>(bytes) / static_cast<double>(to->ne[0])};
  each_row(context, from, to, work, [=](const char* source, char* target) { std::memcpy(target, source, bytes); });
}

// As ggml itself rounds.
void pack_blocks(const Context& context, const ggml_tensor* from, const ggml_tensor* to) {
  const auto quantize = ggml_get_type_traits(to->type)->from_float_ref;
  each_row(context, from, to, Work{.operations = 32}, [=](const char* source, char* target) {
    quantize(reinterpret_cast<const float*>(source), target, to->ne[0]);
  });
}

void unpack_blocks(const Context& context, const ggml_tensor* from, const ggml_tensor* to) {
  const auto widen = ggml_get_type_traits(from->type)->to_float;
  each_row(context, from, to, Work{.operations = 2},
           [=](const char* source, char* target) { widen(source, reinterpret_cast<float*>(target), to->ne[0]); });
}

}  // namespace

bool supports_copy(const ggml_tensor* op) {
  const ggml_tensor* const from = op->src[0];
  if (is_float(from->type) && is_float(op->type)) return true;
  if (from->ne[0] == op->ne[0] && is_f32_rows(from) && is_packed_rows(op))
    return ggml_get_type_traits(op->type)->from_float_ref != nullptr;
  if (from->ne[0] == op->ne[0] && is_packed_rows(from) && is_f32_rows(op)) return true;
  if (from->type != op->type) return false;
  if (ggml_blck_size(op->type) == 1) return true;
  return from->ne[0] == op->ne[0] && has_dense_rows(from) && has_dense_rows(op);
}

Status copy(Context& context, const ggml_tensor* op) {
  const ggml_tensor* const from = op->src[0];
  if (is_float(from->type) && is_packed(op->type))
    pack_blocks(context, from, op);
  else if (is_packed(from->type) && is_float(op->type))
    unpack_blocks(context, from, op);
  else if (from->type != op->type)
    convert_elements(context, from, op);
  else if (ggml_blck_size(op->type) == 1)
    copy_elements(context, from, op);
  else
    copy_blocks(context, from, op);
  return {};
}

}  // namespace inlay::ggml_binding
