// inlay._core: the functions of inlay.h for the Python beside it, which knows shapes and words for people.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include <charconv>
#include <cstdlib>
#include <optional>

#include "arguments.hpp"
#include "backend.hpp"
#include "tensor.hpp"

namespace nb = nanobind;

namespace inlay::python {

void add_model(nb::module_& module);   // model.cpp
void add_weight(nb::module_& module);  // weight.cpp

namespace {

Backend open_backend(const std::string& name, const std::optional<std::string>& isa, int threads) {
  inlay_backend_options options{};
  options.size = sizeof options;
  options.name = name.c_str();
  options.isa = isa ? isa->c_str() : nullptr;
  options.threads = threads;
  inlay_backend* backend = nullptr;
  check(inlay_backend_open(&options, &backend));
  return {name, {backend, inlay_backend_close}};
}

// The values stay alive as those of `given`, whatever other threads do while the operator runs.
void run(const Backend& backend, const std::string& op, const nb::dict& given) {
  Arguments arguments;
  const std::string subject = op + ": ";
  const Fields& fields = fields_of(op);
  for (std::size_t i = 0; i < fields.all.size(); ++i)
    if (PyObject* const value = PyDict_GetItemWithError(given.ptr(), fields.names[i]))
      arguments.add(subject, fields.all[i], value);
  if (arguments.size() != given.size())
    throw nb::type_error((op + ": there is an argument that is no field of it").c_str());
  inlay_code code;
  {
    const nb::gil_scoped_release released;
    code = inlay_run(backend.handle.get(), op.c_str(), arguments.data(), arguments.size(), nullptr, 0);
  }
  check(code);
}

// 1e-05 where the float is 9.999999747e-06.
double shortest(float value) {
  char digits[32] = {};
  std::to_chars(digits, digits + sizeof digits - 1, value);
  return std::strtod(digits, nullptr);
}

nb::object default_of(const inlay_field& field) {
  switch (field.kind) {
    case INLAY_INTEGER: return nb::int_(field.default_integer);
    case INLAY_NUMBER: return nb::float_(shortest(static_cast<float>(field.default_number)));
    case INLAY_FLAG: return nb::bool_(field.default_integer != 0);
    case INLAY_WORD: return nb::str(field.default_word);
    default: return nb::none();
  }
}

nb::list list_fields(const std::string& op) {
  constexpr const char* roles[] = {"", "in", "optional_in", "out", "optional_out", "inout", "in_list", "scalar"};
  constexpr const char* kinds[] = {"", "tensor", "list", "integer", "number", "flag", "word"};
  nb::list rows;
  for (const inlay_field& field : fields_of(op).all) {
    nb::list words;
    for (const char* const* word = field.words; word != nullptr && *word != nullptr; ++word) words.append(*word);
    nb::dict row;
    row["name"] = field.name;
    row["role"] = roles[field.role];
    row["kind"] = kinds[field.kind];
    row["rank"] = field.rank;
    row["default"] = default_of(field);
    row["words"] = words;
    rows.append(row);
  }
  return rows;
}

}  // namespace

}  // namespace inlay::python

NB_MODULE(_core, module) {
  using namespace inlay::python;
  nb::set_leak_warnings(false);  // caches of `typing` keep the classes until the process ends
  module.doc() = "The C ABI of Inlay; `inlay` is what programs use.";
  module.def("version", [] { return inlay_version(); });
  module.def(
      "operators",
      [] {
        nb::list names;
        for (std::size_t i = 0; i < inlay_op_count(); ++i) names.append(inlay_op_name(i));
        return names;
      },
      nb::sig("def operators() -> list[str]"));
  module.def("fields", list_fields, nb::arg("op"), nb::sig("def fields(op: str) -> list[dict[str, typing.Any]]"));
  nb::class_<Backend>(module, "Backend").def_ro("name", &Backend::name).def("__repr__", [](const Backend& backend) {
    return "inlay.Backend('" + backend.name + "')";
  });
  module.def("open_backend", open_backend, nb::arg("name"), nb::arg("isa").none(), nb::arg("threads"));
  add_tensor(module);
  module.def("run", run, nb::arg("backend"), nb::arg("op"), nb::arg("given"),
             nb::sig("def run(backend: Backend, op: str, given: dict[str, object]) -> None"));
  add_weight(module);
  add_model(module);
}
