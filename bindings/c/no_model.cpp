// Of a build without the executor: the functions are there and say so.
#include "bindings/c/code.hpp"

namespace {

inlay_code refused() noexcept {
  return inlay::c::guarded(
      [] { return inlay::unsupported("this library was built without models; it must be built with INLAY_EXEC=ON"); });
}

}  // namespace

inlay_code inlay_model_open(const char*, const inlay_model_options*, inlay_model** model) {
  if (model != nullptr) *model = nullptr;
  return refused();
}
void inlay_model_close(inlay_model*) {}
inlay_code inlay_model_generate(inlay_model*, const inlay_request*, inlay_on_text, void*, inlay_text*) {
  return refused();
}
inlay_code inlay_model_tokenize(const inlay_model*, const char*, size_t, int32_t*, size_t, size_t*) {
  return refused();
}
inlay_code inlay_model_tokenize_chat(const inlay_model*, const inlay_chat*, int32_t*, size_t, size_t*) {
  return refused();
}
