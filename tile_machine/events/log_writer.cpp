#include <cstdio>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

#include "files/whole_file.hpp"
#include "tile_machine/events/log_file.hpp"

namespace inlay::npu {
namespace {

using Json = nlohmann::ordered_json;

class LogWriter {
 public:
  LogWriter(const EventLog& log, const Device& device, std::function<void(std::string_view)> put)
      : put_(std::move(put)), log_(log), device_(device), number_of_(log.buffers.size(), no_buffer) {}

  void write(std::string_view kernel) {
    Json header{{"inlay_npu_log", 1}, {"kernel", kernel}, {"cores", log_.cores}};
    if (!device_.streams.empty())
      for (const std::uint8_t kind : log_.streams) header["streams"].push_back(device_.streams[kind].name);
    put(header);
    std::vector<bool> allocated(log_.buffers.size());
    for (const Entry& entry : log_.entries)
      if (entry.event == Event::allocate) allocated[entry.buffer] = true;
    for (std::uint32_t b = 0; b < log_.buffers.size(); ++b)
      if (!allocated[b]) put_buffer("buffer", b, "buffer", log_.buffers[b].site);
    for (const Entry& entry : log_.entries) put_entry(entry);
    put({{"event", "end"}, {"events", events_}});
  }

 private:
  static constexpr std::uint32_t no_buffer = 0xffffffffu;

  void put(const Json& line) { put_(line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n"); }

  // The keys that all events have; those that say what a reader takes for given are left out.
  Json begin(const char* event, std::uint16_t core, std::uint8_t stream, const char* verb, const SourceLocation& site) {
    ++events_;
    Json line{{"event", event}};
    if (core != 0) line["core"] = core;
    if (stream != 0) line["stream"] = stream;
    if (*verb != '\0' && std::string_view(verb) != event) line["verb"] = verb;
    if (*site.file_name() != '\0') line["file"] = site.file_name();
    if (site.line() != 0) line["line"] = site.line();
    if (site.column() != 0) line["column"] = site.column();
    return line;
  }

  void put_buffer(const char* event, std::uint32_t b, const char* verb, const SourceLocation& site) {
    const Buffer& buffer = log_.buffers[b];
    number_of_[b] = declared_++;
    Json line = begin(event, buffer.core, buffer.stream, verb, site);
    line.update({{"buffer", number_of_[b]},
                 {"name", buffer.name.empty() ? "nameless" : buffer.name},
                 {"space", name(space_of(buffer.memory))},
                 {"address", buffer.begin},
                 {"bytes", buffer.bytes}});
    if (buffer.workspace) line["workspace"] = true;
    put(line);
  }

  // One of the roles that the memory plays.
  Space space_of(std::uint8_t memory) const {
    int space = 0;
    while (space + 1 < spaces && device_.memory_of[static_cast<std::size_t>(space)] != memory) ++space;
    return static_cast<Space>(space);
  }

  void put_entry(const Entry& entry) {
    if (entry.event == Event::allocate) return put_buffer("allocate", entry.buffer, entry.verb, entry.site);
    Json line = begin(word(entry), entry.core, entry.stream, entry.verb, entry.site);
    switch (entry.event) {
      case Event::work: add_work(line, entry); break;
      case Event::stream_set:
      case Event::stream_wait: line["peer_stream"] = entry.peer_stream; [[fallthrough]];
      case Event::set:
      case Event::wait:
        line.update({{"from", name(entry.from)}, {"to", name(entry.to)}, {"flag", entry.flag}});
        if (entry.ring) line["ring"] = true;
        if (entry.unit) line["unit"] = true;
        break;
      case Event::cross_set: line["peer"] = entry.peer; [[fallthrough]];
      case Event::cross_wait: line.update({{"pipe", name(entry.pipe)}, {"flag", entry.flag}}); break;
      case Event::barrier: line["pipe"] = name(entry.pipe); break;
      case Event::release: line["buffer"] = number_of_[entry.buffer]; break;
      case Event::allocate:
      case Event::barrier_all:
      case Event::sync_all: break;
    }
    put(line);
  }

  static const char* word(const Entry& entry) {
    switch (entry.event) {
      case Event::work: break;
      case Event::set: return "set";
      case Event::wait: return "wait";
      case Event::barrier: return "barrier";
      case Event::barrier_all: return "barrier_all";
      case Event::stream_set: return "stream_set";
      case Event::stream_wait: return "stream_wait";
      case Event::cross_set: return "cross_set";
      case Event::cross_wait: return "cross_wait";
      case Event::sync_all: return "sync_all";
      case Event::allocate: return "allocate";
      case Event::release: return "release";
    }
    switch (entry.work.unit) {
      case Unit::dma: return "copy";
      case Unit::matrix: return "matrix";
      case Unit::vector: return "vector";
      case Unit::scalar:
      case Unit::none: break;
    }
    return "scalar";
  }

  void add_work(Json& line, const Entry& entry) {
    const Work& work = entry.work;
    if (work.unit == Unit::dma) {
      const Path& path = device_.paths[work.path];
      line.update({{"from", name(path.from)}, {"to", name(path.to)}, {"bytes", work.bytes}, {"runs", work.runs}});
      if (work.change != Change::none) line["change"] = work.change == Change::nd2nz ? "nd2nz" : "turn";
    } else if (work.unit == Unit::matrix) {
      line.update({{"m", work.m}, {"n", work.n}, {"k", work.k}, {"in", name(work.in)}, {"out", name(work.out)}});
      if (work.turned) line["turned"] = true;
    } else if (work.unit == Unit::vector) {
      line.update({{"op", name(work.op)}, {"in", name(work.in)}, {"out", name(work.out)}, {"elements", work.elements}});
      if (work.rows != 1) line["rows"] = work.rows;
      if (work.column) line["broadcast"] = true;
    } else if (entry.line != LineVerb::none) {
      line["cache"] = entry.line == LineVerb::clean ? "clean" : "invalidate";
    }
    for (std::uint32_t f = entry.footprints; f < entry.footprints + entry.footprint_count; ++f)
      line[log_.footprints[f].write ? "writes" : "reads"].push_back(access(log_.footprints[f]));
  }

  Json access(const Footprint& at) const {
    Json result;
    if (at.buffer < log_.buffers.size())
      result = {{"buffer", number_of_[at.buffer]}, {"offset", at.begin - log_.buffers[at.buffer].begin}};
    else
      result = {{"space", name(space_of(at.memory))}, {"address", at.begin}};
    result["bytes"] = at.run_bytes;
    if (at.runs != 1) result.update({{"runs", at.runs}, {"stride", at.stride}});
    if (at.atomic) result["atomic"] = true;
    if (at.streamed) result["streamed"] = true;
    return result;
  }

  std::function<void(std::string_view)> put_;
  const EventLog& log_;
  const Device& device_;
  std::vector<std::uint32_t> number_of_;  // by buffer: in the text
  std::uint32_t declared_ = 0;
  std::size_t events_ = 0;
};

}  // namespace

std::string log_text(const EventLog& log, const Device& device, std::string_view kernel) {
  std::string text;
  LogWriter(log, device, [&](std::string_view line) { text += line; }).write(kernel);
  return text;
}

Status save_log(const std::string& path, const EventLog& log, const Device& device, std::string_view kernel) {
  return files::write_whole(path, [&](std::FILE* file) -> Status {
    bool written = true;
    LogWriter(log, device, [&](std::string_view line) {
      written = written && std::fwrite(line.data(), 1, line.size(), file) == line.size();
    }).write(kernel);
    return written ? Status() : Status(StatusCode::internal, path + " cannot be written");
  });
}

}  // namespace inlay::npu
