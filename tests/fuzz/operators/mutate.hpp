// A valid struct made wrong, or merely strange, field by field: through the operator's own list of fields.
#pragma once

#include <cmath>
#include <string>

#include <inlay/core/fields.hpp>

#include "measure/cases/compare.hpp"
#include "measure/cases/draw.hpp"

namespace inlay::fuzz {

using namespace cases;  // what is drawn

template <class Op> class Mutator {
 public:
  Mutator(Draw& d, Op& op) : d_(d), op_(op) {}

  Changes change(int count) {
    constexpr index fields = static_cast<index>(Op::fields.count);
    for (int i = 0; i < count; ++i) {
      const index chosen = d_.below(fields);
      index at = 0;
      for_each_field(op_, [&](const auto& field, auto& value) {
        if (at++ != chosen) return;
        ++changes_.count;
        changes_.fields += (changes_.fields.empty() ? "" : ", ") + std::string(field.name);
        change(field, value);
      });
    }
    return changes_;
  }

 private:
  template <class F, class V>
  requires ViewLike<V>
  void change(const F& field, V& view) {
    // Sums and padding of packed weights go with them.
    if (field.name == "weight" || field.name == "weight_sum" || field.name == "table") changes_.wild = true;
    const int dimension = static_cast<int>(d_.below(V::rank));
    index &extent = view.extents[static_cast<std::size_t>(dimension)],
          &stride = view.strides[static_cast<std::size_t>(dimension)];
    switch (d_.below(16)) {
      case 0: view.dtype = static_cast<DType>(d_.below(dtype_count)); break;
      case 1: view.dtype = static_cast<DType>(d_.between(dtype_count, 255)); return;
      case 2: extent = wrapping_sum(extent, d_.pick<index>({-1, 1, 1, 16})); break;
      case 3: extent = 0; break;
      case 4: extent = d_.pick<index>({-1, least, least + 1, -(index{1} << 32)}); break;
      case 5: extent = huge(); break;
      case 6: stride = wrapping_sum(stride, d_.between(-5, 5)); break;
      case 7: stride = 0; break;
      case 8: stride = stride == least ? largest : -stride; break;
      case 9: stride = d_.pick<index>({1, -1}) * huge(); break;
      case 10: stride = least; break;
      case 11: view.data = nullptr; return;
      case 12: {
        const DType dtype = view.dtype;
        view = {};
        view.dtype = dtype;
        return;
      }
      case 13: share(view); return;
      case 14:
        extent = huge();
        view.extents[static_cast<std::size_t>(d_.below(V::rank))] = 0;
        break;
      default: contents(view); return;
    }
    place(view);
  }

  template <class F, class L>
  requires ListOfViews<L>
  void change(const F& field, L& list) {
    auto& views = d_.lists[field.name.front() == 'v'];
    switch (d_.below(4)) {
      case 0: list = {}; return;
      case 1: list = list.first(static_cast<std::size_t>(d_.between(0, static_cast<index>(list.size())))); return;
      case 2: list = d_.lists[d_.below(2)]; return;
      default:
        if (views.empty() || list.empty()) return;
        change(field, views[static_cast<std::size_t>(d_.below(static_cast<index>(views.size())))]);
    }
  }

  template <class F> void change(const F&, bool& value) { value = !value; }
  template <class F> void change(const F&, index& value) {
    value = d_.pick<index>({0, 1, -1, 2, 3, 7, 8, 16, 1000, index{1} << 31, index{1} << 32, index{1} << 53,
                            index{1} << 62, -(index{1} << 62), largest - 1, largest, least, least + 1});
  }
  template <class F> void change(const F&, float& value) {
    value = d_.chance(40) ? static_cast<float>(d_.real(-4, 4))
                          : d_.pick({0.0f, -0.0f, 1.0f, -1.0f, 1e-40f, 1e-6f, 1e5f, 1e38f, -1e38f, HUGE_VALF,
                                     -HUGE_VALF, std::nanf("")});
    const float size = std::abs(value);
    if (size != 0 && !(size > 0.01f && size < 10)) changes_.wild = true;
  }
  template <class F, class E>
  requires std::is_enum_v<E>
  void change(const F&, E& value) { value = static_cast<E>(d_.pick<index>({0, 1, 2, 3, 4, 8, 12, 14, 255})); }

  static index wrapping_sum(index a, index b) {
    return static_cast<index>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }

  index huge() {
    return d_.pick<index>({index{1} << 31, (index{1} << 32) + 1, index{1} << 40, index{1} << 56, index{1} << 57,
                           index{1} << 60, index{1} << 62, largest, largest - 1});
  }

  // New memory for a view of another shape, with contents that may be anything small.
  template <class V> void place(V& view) {
    if (!d_.place(view)) return;
    if (view.dtype == DType::boolean)
      d_.fill(view, 0, 1);
    else
      d_.fill(view, -1, view.dtype > DType::bf16 ? 3 : 1);
  }

  // The memory of another view, where it is enough.
  template <class V> void share(V& view) {
    std::vector<const void*> others;
    for_each_view(op_, [&](const auto&, const auto& other) {
      if (other.data != nullptr && d_.owns(other)) others.push_back(other.data);
    });
    if (others.empty()) return place(view);
    const Extent extent = extent_of(view, std::size_t{1} << 20);
    auto* begin = static_cast<std::byte*>(const_cast<void*>(
                      others[static_cast<std::size_t>(d_.below(static_cast<index>(others.size())))])) +
                  d_.pick<index>({0, 0, 0, 8, 64});
    changes_.wild = true;  // read as another type it may be any number
    for (const Placed& one : d_.placed())
      if (extent.fits && begin >= one.begin + extent.first &&
          begin - extent.first + extent.bytes <= one.begin + one.bytes) {
        view.data = begin;
        return;
      }
    place(view);
  }

  template <class V> void contents(V& view) {
    if (view.data == nullptr || view.empty() || !d_.owns(view)) return;
    if (view.dtype == DType::boolean || static_cast<int>(view.dtype) >= dtype_count) return;
    const index i = d_.below(view.extents[V::rank - 1]) * view.strides[V::rank - 1];
    if (i < 0 && bits(view.dtype) < 8) return;  // no element lies before the first byte
    if (view.dtype > DType::bf16) {
      const index value =
          d_.pick<index>({-1, 0, 1, 2, 70, 127, 255, index{1} << 31, -(index{1} << 31), largest, least});
      if (view.dtype == DType::i64)
        std::memcpy(static_cast<std::byte*>(const_cast<void*>(static_cast<const void*>(view.data))) + 8 * i, &value, 8);
      else
        Draw::set(view, i, static_cast<double>(value));
      return;
    }
    const double value = d_.pick({std::nan(""), std::nan(""), HUGE_VAL, -HUGE_VAL, -0.0, 1e-42, 3e38, 1e5});
    changes_.nan |= std::isnan(value);
    changes_.infinite |= std::isinf(value);
    changes_.wild |= std::abs(value) > 10 && !std::isinf(value);
    Draw::set(view, i, value);
  }

  Draw& d_;
  Op& op_;
  Changes changes_;
};

}  // namespace inlay::fuzz
