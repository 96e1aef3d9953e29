// A timeline as Perfetto (ui.perfetto.dev) and chrome://tracing open it: processes of threads of slices, in
// microseconds.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <inlay/core/status.hpp>

namespace inlay::files {

class TraceEvents {
 public:
  void name_process(std::size_t process, std::string_view name);
  void name_thread(std::size_t process, std::size_t thread, std::string_view name);
  void slice(std::size_t process, std::size_t thread, std::string_view name, double begin_us, double us);

  std::string json() const;
  Status write(const std::string& file) const;

 private:
  void add(std::string_view event);

  std::string events_;  // with commas between them
};

}  // namespace inlay::files
