#include <inlay/exec/plan/verify.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace inlay::exec {
namespace {

using Address = std::ptrdiff_t;
constexpr index nobody = -1;

struct Read {
  index step, writer;  // whose byte it was when recorded
  Address recorded;
  bool operator==(const Read&) const = default;
};
struct Write {
  index step;
  Address recorded;
  bool operator==(const Write&) const = default;
};
struct Byte {
  std::vector<Read> reads;
  std::vector<Write> writes;
};

// reached[a][b]: is there a path from a to b?
std::vector<std::vector<bool>> paths(const Edges& edges) {
  const auto count = static_cast<std::size_t>(edges.steps());
  std::vector<std::vector<bool>> reached(count, std::vector<bool>(count));
  for (std::size_t from = 0; from < count; ++from) {
    std::vector<index> open{static_cast<index>(from)};
    while (!open.empty()) {
      const index step = open.back();
      open.pop_back();
      for (const index next : edges.after(step))
        if (!reached[from][static_cast<std::size_t>(next)]) {
          reached[from][static_cast<std::size_t>(next)] = true;
          open.push_back(next);
        }
    }
  }
  return reached;
}

template <class Visit> void each_byte(const Access& access, Visit&& visit) {
  for (Address row = 0; row < access.rows; ++row)
    for (Address i = 0; i < access.span; ++i) visit(row * access.period + i);
}

class Verifier {
 public:
  Verifier(std::span<const GraphStep> steps, const Edges& edges) : steps_(steps), reached_(paths(edges)) {}

  Status run(std::span<const Accesses> recorded) {
    for (const Accesses& accesses : recorded)
      for (const Access& access : accesses)
        if (access.writes) {
          each_byte(access, [&](Address i) { last_[access.begin + i] = nobody; });
          written_.push_back({access.begin, access.end()});
        }
    for (std::size_t step = 0; step < recorded.size(); ++step) note(static_cast<index>(step), recorded[step]);
    for (const auto& [address, byte] : bytes_) {
      if (Status status = check_reads(byte); !status.ok()) return status;
      if (Status status = check_end(address, byte); !status.ok()) return status;
    }
    return {};
  }

 private:
  // In the order of the program: who wrote what a step reads, then what it writes.
  void note(index step, const Accesses& recorded) {
    const Accesses& placed = steps_[static_cast<std::size_t>(step)].accesses;
    for (std::size_t a = 0; a < recorded.size(); ++a)
      if (recorded[a].reads && is_written(recorded[a]))
        each_byte(recorded[a], [&](Address i) {
          const Address from = recorded[a].begin + i;
          if (const auto last = last_.find(from); last != last_.end())
            append(bytes_[placed[a].begin + i].reads, Read{step, last->second, from});
        });
    for (std::size_t a = 0; a < recorded.size(); ++a)
      if (recorded[a].writes)
        each_byte(recorded[a], [&](Address i) {
          last_[recorded[a].begin + i] = step;
          append(bytes_[placed[a].begin + i].writes, Write{step, recorded[a].begin + i});
        });
  }
  // Most of what steps read are weights.
  bool is_written(const Access& access) const {
    return std::any_of(written_.begin(), written_.end(),
                       [&](const ByteRange& range) { return range.begin < access.end() && access.begin < range.end; });
  }
  template <class Event> static void append(std::vector<Event>& events, const Event& event) {
    if (std::find(events.begin(), events.end(), event) == events.end()) events.push_back(event);
  }

  Status check_reads(const Byte& byte) const {
    for (const Read& read : byte.reads) {
      if (read.writer != nobody && read.writer != read.step && !precedes(read.writer, read.step))
        return internal(name(read.step) + " may run before " + name(read.writer) + ", whose bytes it reads");
      for (const Write& write : byte.writes) {
        if (write.step == read.writer && write.recorded == read.recorded) continue;
        if (write.step == read.step && write.recorded == read.recorded) continue;
        const bool before = read.writer != nobody && precedes(write.step, read.writer);
        if (!before && !precedes(read.step, write.step))
          return internal(name(write.step) + " may write over what " + name(read.step) + " reads" +
                          (read.writer == nobody ? std::string() : ", which " + name(read.writer) + " wrote"));
      }
    }
    return {};
  }
  // Of memory that outlives the steps.
  Status check_end(Address address, const Byte& byte) const {
    for (std::size_t i = 1; i < byte.writes.size(); ++i) {
      const Write &one = byte.writes[i - 1], &next = byte.writes[i];
      if (one.recorded == address && next.recorded == address && !precedes(one.step, next.step))
        return internal(name(next.step) + " may write before " + name(one.step) + ", to the same place");
    }
    return {};
  }

  bool precedes(index earlier, index later) const {
    return reached_[static_cast<std::size_t>(earlier)][static_cast<std::size_t>(later)];
  }
  std::string name(index step) const {
    return "step " + std::to_string(step) + " (" + std::string(steps_[static_cast<std::size_t>(step)].name) + ")";
  }
  static Status internal(const std::string& message) { return {StatusCode::internal, message}; }

  std::span<const GraphStep> steps_;
  std::vector<std::vector<bool>> reached_;
  std::vector<ByteRange> written_;
  std::unordered_map<Address, index> last_;  // who wrote each byte last, of those that a step writes
  std::unordered_map<Address, Byte> bytes_;  // by where they were moved
};

}  // namespace

Status verify(std::span<const Accesses> recorded, std::span<const GraphStep> placed, const Edges& edges) {
  return Verifier(placed, edges).run(recorded);
}

}  // namespace inlay::exec
