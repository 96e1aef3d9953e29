#include "files/trace_events.hpp"

#include <nlohmann/json.hpp>

#include "files/whole_file.hpp"

namespace inlay::files {
namespace {

nlohmann::json named(const char* kind, std::size_t process, std::size_t thread, std::string_view name) {
  return {{"ph", "M"}, {"name", kind}, {"pid", process}, {"tid", thread}, {"args", {{"name", name}}}};
}

}  // namespace

void TraceEvents::name_process(std::size_t process, std::string_view name) {
  add(named("process_name", process, 0, name).dump());
}

void TraceEvents::name_thread(std::size_t process, std::size_t thread, std::string_view name) {
  add(named("thread_name", process, thread, name).dump());
}

void TraceEvents::slice(std::size_t process, std::size_t thread, std::string_view name, double begin_us, double us) {
  add(nlohmann::json{{"ph", "X"}, {"name", name}, {"pid", process}, {"tid", thread}, {"ts", begin_us}, {"dur", us}}
          .dump());
}

void TraceEvents::add(std::string_view event) {
  if (!events_.empty()) events_ += ',';
  events_ += event;
}

std::string TraceEvents::json() const { return "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[" + events_ + "]}"; }

Status TraceEvents::write(const std::string& file) const { return write_whole(file, json()); }

}  // namespace inlay::files
