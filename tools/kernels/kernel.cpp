#include "tools/kernels/kernel.hpp"

#include <dlfcn.h>

namespace inlay::tools {

namespace {

template <class Function> Function* find(void* library, const char* name) {
  return reinterpret_cast<Function*>(dlsym(library, name));
}

}  // namespace

std::string_view name_of(DLDataType type) {
  for (int i = 0; i < dtype_count; ++i)
    if (inlay::detail::dl_types[i].code == type.code && inlay::detail::dl_types[i].bits == type.bits)
      return name(static_cast<DType>(i));
  return {};
}

Expected<Kernel> Kernel::load(const std::string& path, const std::string& symbol) {
  Kernel kernel;
  if (path.ends_with(".py")) {
    auto python = PythonKernel::start(path, symbol == "inlay_run" ? "" : symbol);
    if (!python) return failure(Status(python.error().code(), python.error().message()));
    kernel.python_ = std::make_shared<PythonKernel>(std::move(*python));
    return kernel;
  }
  // Without a slash dlopen searches elsewhere.
  const std::string where = path.find('/') == std::string::npos ? "./" + path : path;
  kernel.library_ = {dlopen(where.c_str(), RTLD_NOW | RTLD_LOCAL), [](void* library) {
                       if (library != nullptr) dlclose(library);
                     }};
  if (kernel.library_ == nullptr) return failure(StatusCode::not_found, "--kernel: " + std::string(dlerror()));
  void* const library = kernel.library_.get();
  kernel.run_ = find<decltype(inlay_run)>(library, symbol.c_str());
  if (kernel.run_ == nullptr)
    return failure(StatusCode::not_found,
                   path + " has no function " + symbol + "; --symbol must name one of the form of inlay_run");
  kernel.message_ = find<decltype(inlay_message)>(library, "inlay_message");
  const auto open = find<decltype(inlay_backend_open)>(library, "inlay_backend_open");
  const auto close = find<decltype(inlay_backend_close)>(library, "inlay_backend_close");
  if (open != nullptr && close != nullptr) {
    inlay_backend_options options{};
    options.size = sizeof options;
    options.threads = 1;  // it is run in processes that are forked: they have no threads of this one
    inlay_backend* backend = nullptr;
    if (open(&options, &backend) != INLAY_OK)
      return failure(StatusCode::unsupported, path + ": inlay_backend_open fails: " + kernel.message());
    kernel.backend_ = {backend, [close, library = kernel.library_](inlay_backend* one) { close(one); }};
  }
  return kernel;
}

std::string Kernel::message() const {
  if (python_ != nullptr) return python_->message();
  return message_ == nullptr ? "" : message_();
}

}  // namespace inlay::tools
