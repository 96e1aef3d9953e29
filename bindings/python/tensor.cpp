#include "tensor.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>

#include <memory>

namespace nb = nanobind;

namespace inlay::python {

namespace {

struct Named {
  const char* name;
  DLDataType type;
};
constexpr Named names[] = {{"f32", {kDLFloat, 32, 1}}, {"f16", {kDLFloat, 16, 1}}, {"bf16", {kDLBfloat, 16, 1}},
                           {"i8", {kDLInt, 8, 1}},     {"u8", {kDLUInt, 8, 1}},    {"i4", {kDLInt, 4, 1}},
                           {"u4", {kDLUInt, 4, 1}},    {"i32", {kDLInt, 32, 1}},   {"i64", {kDLInt, 64, 1}},
                           {"bool", {kDLBool, 8, 1}}};

}  // namespace

std::string name_of(DLDataType type) {
  for (const Named& named : names)
    if (named.type.code == type.code && named.type.bits == type.bits && type.lanes == 1) return named.name;
  return "type code " + std::to_string(type.code) + " of " + std::to_string(type.bits) + " bits";
}

DLDataType type_of(const std::string& name) {
  std::string known;
  for (const Named& named : names) {
    if (name == named.name) return named.type;
    known += std::string(known.empty() ? "" : " ") + named.name;
  }
  throw nb::value_error(("dtype is '" + name + "'; it must be one of " + known).c_str());
}

Tensor::Tensor(nb::ndarray<nb::ro> memory) : Tensor(nb::ndarray<>(std::move(memory)), true) {}

Tensor::Tensor(nb::ndarray<> memory, bool read_only) : memory_(std::move(memory)), writable_(!read_only) {
  shape_.assign(memory_.shape_ptr(), memory_.shape_ptr() + memory_.ndim());
  strides_.assign(memory_.stride_ptr(), memory_.stride_ptr() + memory_.ndim());
  const nb::dlpack::dtype type = memory_.dtype();
  view_.data = const_cast<void*>(static_cast<const void*>(memory_.data()));
  view_.device = {memory_.device_type(), memory_.device_id()};
  view_.ndim = static_cast<std::int32_t>(memory_.ndim());
  view_.dtype = {type.code, type.bits, type.lanes};
  view_.shape = shape_.data();
  view_.strides = strides_.data();
}

void Tensor::reinterpret(const std::string& dtype) {
  const DLDataType type = type_of(dtype);
  const bool halves = type.bits == 4 && view_.dtype.bits == 8;
  if (type.bits != view_.dtype.bits && !halves)
    throw nb::value_error(("elements of " + this->dtype() + " cannot be read as " + dtype + ": they must have " +
                           (type.bits == 4 ? "8" : std::to_string(type.bits)) + " bits")
                              .c_str());
  if (halves) {
    if (shape_.empty() || strides_.back() != 1)
      throw nb::value_error("codes of 4 bits must lie in rows of bytes beside each other");
    shape_.back() *= 2;
    for (std::size_t d = 0; d + 1 < strides_.size(); ++d) strides_[d] *= 2;
  }
  view_.dtype = type;
}

nb::tuple Tensor::shape() const {
  nb::list extents;
  for (const std::int64_t extent : shape_) extents.append(extent);
  return nb::tuple(extents);
}

bool Tensor::freed() const {
  for (const std::int64_t extent : shape_)
    if (extent == 0) return false;
  return view_.data == nullptr;
}

void add_tensor(nb::module_& module) {
  nb::class_<Tensor>(module, "Tensor", "A view of somebody's memory, for run().")
      .def_prop_ro("dtype", &Tensor::dtype)
      .def_prop_ro("shape", &Tensor::shape, nb::sig("def shape(self, /) -> tuple[int, ...]"))
      .def_prop_ro("freed", &Tensor::freed, "Has it elements, and no memory?")
      .def("reinterpret", &Tensor::reinterpret, nb::arg("dtype"));
  module.def(
      "tensor",
      [](nb::handle value, bool writable) -> std::unique_ptr<Tensor> {
        if (writable) {
          nb::ndarray<> memory;
          if (!nb::try_cast(value, memory, false)) return nullptr;
          return std::make_unique<Tensor>(std::move(memory));
        }
        nb::ndarray<nb::ro> memory;
        if (!nb::try_cast(value, memory, false)) return nullptr;
        return std::make_unique<Tensor>(std::move(memory));
      },
      nb::arg("value"), nb::arg("writable"), nb::sig("def tensor(value: object, writable: bool) -> Tensor | None"),
      "The memory of a numpy array, a DLPack tensor or capsule, or a buffer; None: it is none of them, or read-only.");
}

}  // namespace inlay::python
