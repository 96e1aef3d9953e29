// The reader of an event log's text, line by line: log_lines.cpp reads the lines, the header and what all events have,
// log_events.cpp each event, log_accesses.cpp buffers and the bytes that work touches.
#pragma once

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tile_machine/device/figure_reader.hpp"
#include "tile_machine/events/log_file.hpp"

namespace inlay::npu {

class LogReader : private FigureReader {
 public:
  LogReader(const Device& device, LogFile& file) : device_(device), file_(file), log_(file.log) {}

  Status line(std::string_view text);
  // Behind the last line.
  Status end();

 private:
  // Some words, which need no memory: a library makes nothing that its process's end would have to take down.
  struct Keys {
    std::array<std::string_view, 6> words = {};
    std::size_t count = 0;

    constexpr Keys(std::initializer_list<std::string_view> all) : count(all.size()) {
      std::copy(all.begin(), all.end(), words.begin());
    }
    operator Words() const { return Words(words).first(count); }
  };
  // An event: its name in the text, who reads it, and its keys besides those that all have.
  struct Form {
    std::string_view name;
    void (LogReader::*read)(const Node& root, Entry& entry);
    Event event;
    bool is_entry;
    Keys required, optional;
  };
  static std::span<const Form> forms();

  // log_lines.cpp
  void header(const Node& root);
  void streams(const Node& root);
  void event(const Node& root);
  Status here(std::string_view what) const;
  SourceLocation site(const Node& root);
  const char* text_of(const Node& root, std::string_view key, const char* otherwise);
  void fields(const Node& root, Words required, Words optional);
  std::uint64_t number(const Node& root, std::string_view key, std::uint64_t low, std::uint64_t high,
                       std::uint64_t otherwise);
  bool yes(const Node& root, std::string_view key) { return has(root, key) && boolean(get(root, key)); }

  // log_events.cpp
  bool runs(Pipe pipe, std::size_t stream, const std::string& pointer);
  Pipe pipe(const Node& root, std::string_view key, std::size_t stream);
  DType type(const Node& root, std::string_view key);
  void flag(const Node& root, Entry& entry);
  void stream_flag(const Node& root, Entry& entry);
  void cross_set(const Node& root, Entry& entry);
  void cross_wait(const Node& root, Entry& entry);
  void barrier(const Node& root, Entry& entry);
  void nothing_more(const Node&, Entry&) {}
  void copy(const Node& root, Entry& entry);
  void matrix(const Node& root, Entry& entry);
  void vector(const Node& root, Entry& entry);
  void scalar(const Node& root, Entry& entry);
  void last(const Node& root, Entry& entry);

  // log_accesses.cpp
  void buffer(const Node& root, Entry& entry);
  void release(const Node& root, Entry& entry);
  Space space(const Node& root, std::string_view key, const Entry& entry);
  void accesses(const Node& root, Entry& entry);
  void access(const Node& node, bool write, const Entry& entry);
  std::uint32_t whole_memory(Space space, const Entry& entry);
  // Of the number-th of the reads or writes: it lies where the verb can reach.
  void expect_in(std::initializer_list<Space> allowed, const Footprint& at, std::size_t number);
  // each(footprint, its number among the reads or the writes)
  template <class Each> void each_access(const Entry& entry, Each&& each) {
    std::size_t numbers[2] = {0, 0};
    for (std::uint32_t f = entry.footprints; f < log_.footprints.size(); ++f)
      each(log_.footprints[f], numbers[log_.footprints[f].write ? 1 : 0]++);
  }
  bool has_memory(Space space, std::size_t stream) const;

  struct Declared {
    std::uint32_t index = 0;  // into EventLog::buffers
    bool allocated = false, released = false;
  };

  const Device& device_;
  LogFile& file_;
  EventLog& log_;
  std::size_t lines_ = 0, events_ = 0;
  bool ended_ = false;
  std::string place_;  // "softmax.c:12", of the event that is being read
  std::vector<Declared> declared_;
  std::map<std::tuple<std::uint8_t, std::uint16_t, std::uint8_t>, std::uint32_t> whole_memories_;
  std::uint64_t allocated_bytes_ = 0;
};

}  // namespace inlay::npu
