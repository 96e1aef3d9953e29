// Weights that the library has packed, and the arguments that they are to their operators: arrays over the same memory.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <vector>

#include "arguments.hpp"
#include "backend.hpp"
#include "tensor.hpp"

namespace nb = nanobind;

namespace inlay::python {

namespace {

struct Weight {
  std::shared_ptr<inlay_weight> handle;
  inlay_weight_info info{};
};

Weight pack(const Backend& backend, const std::string& packer, const nb::dict& given) {
  Arguments arguments;
  for (const inlay_field& field : fields_of(packer).all)
    if (given.contains(field.name)) arguments.add(packer + ": ", field, given[field.name]);
  inlay_weight* packed = nullptr;
  inlay_code code;
  {
    const nb::gil_scoped_release released;
    code = inlay_weight_pack(backend.handle.get(), packer.c_str(), arguments.data(), arguments.size(), &packed);
  }
  check(code);
  Weight weight{{packed, inlay_weight_close}};
  weight.info.size = sizeof weight.info;
  check(inlay_weight_describe(packed, &weight.info));
  return weight;
}

// By the field of the operator an array, or an integer. numpy has no bf16: its bits.
nb::dict arguments(nb::handle self) {
  const Weight& weight = nb::cast<const Weight&>(self);
  nb::dict all;
  for (std::size_t i = 0; i < weight.info.argument_count; ++i) {
    const inlay_argument& argument = weight.info.arguments[i];
    if (argument.kind == INLAY_INTEGER) {
      all[argument.name] = argument.integer;
      continue;
    }
    const DLTensor& tensor = *argument.tensor;
    const std::vector<std::size_t> shape(tensor.shape, tensor.shape + tensor.ndim);
    const bool bf16 = tensor.dtype.code == kDLBfloat;
    const nb::dlpack::dtype dtype{bf16 ? static_cast<std::uint8_t>(kDLUInt) : tensor.dtype.code, tensor.dtype.bits, 1};
    const nb::ndarray<nb::numpy, nb::ro> array(tensor.data, shape.size(), shape.data(), self, nullptr, dtype);
    all[argument.name] = nb::make_tuple(array, name_of(tensor.dtype));
  }
  return all;
}

}  // namespace

void add_weight(nb::module_& module) {
  module.def(
      "packers",
      [] {
        nb::list names;
        for (std::size_t i = 0; i < inlay_packer_count(); ++i) names.append(inlay_packer_name(i));
        return names;
      },
      nb::sig("def packers() -> list[str]"));
  nb::class_<Weight>(module, "Weight")
      .def_prop_ro("op", [](const Weight& weight) { return weight.info.op; })
      .def_prop_ro("n", [](const Weight& weight) { return weight.info.n; })
      .def_prop_ro("k", [](const Weight& weight) { return weight.info.k; })
      .def_prop_ro("bytes", [](const Weight& weight) { return weight.info.bytes; })
      .def("arguments", arguments, nb::sig("def arguments(self) -> dict[str, typing.Any]"));
  module.def("pack", pack, nb::arg("backend"), nb::arg("packer"), nb::arg("given"),
             nb::sig("def pack(backend: Backend, packer: str, given: dict[str, object]) -> Weight"));
}

}  // namespace inlay::python
