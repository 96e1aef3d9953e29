// Typed access to a GGUF file's metadata. The first failure is kept and later calls do nothing, so that a reader is a
// list of wishes: each call is true where the key is there and of the right type, and leaves `out` alone otherwise.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "executor/model/gguf/gguf.hpp"

namespace inlay::exec {

class GgufMetadata {
 public:
  explicit GgufMetadata(const GgufFile& file) : file_(file) {}

  Status take_status() { return std::move(status_); }
  bool ok() const { return status_.ok(); }

  void fail(StatusCode code, const std::string& what);

  // Any integer type; an array counts where all its elements are equal (per-layer values of a uniform model).
  bool integer(const std::string& key, index& out, bool required);
  // One value for all layers, or an array with one for each: `out` has 1 or `layers` entries. Booleans are 0 and 1.
  bool per_layer(const std::string& key, index layers, std::vector<index>& out, bool required);
  // The same of real numbers.
  bool numbers_per_layer(const std::string& key, index layers, std::vector<double>& out);
  // An array of any integer type, one after the other: a list of all may take eight times the bytes of the file.
  bool integers(const std::string& key, const std::function<void(index)>& take);
  bool number(const std::string& key, double& out, bool required);
  bool text(const std::string& key, std::string& out, bool required);
  bool boolean(const std::string& key, bool& out);
  bool strings(const std::string& key, std::vector<std::string_view>& out, bool required);

  template <class T> bool array(const std::string& key, GgufType element, std::vector<T>& out) {
    const GgufValue* value = lookup(key, false);
    if (!value) return false;
    if (value->type != GgufType::array || value->element != element) return wrong(key, "array of the right type");
    out.resize(static_cast<std::size_t>(value->count));
    if (!out.empty()) std::memcpy(out.data(), value->bytes.data(), value->bytes.size());
    return true;
  }

 private:
  const GgufValue* lookup(const std::string& key, bool required);
  bool wrong(const std::string& key, const char* kind);

  const GgufFile& file_;
  Status status_;
};

}  // namespace inlay::exec
