#include "tile_machine/emit/ascend_c.hpp"

#include <algorithm>
#include <array>

#include "tile_machine/emit/statements.hpp"
#include "tile_machine/emit/workers.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu::emit {

namespace {

constexpr std::size_t most_verbs = std::size_t{1} << 18, most_programs = 8;

tl::unexpected<Status> failed(const std::string& why) { return tl::unexpected<Status>(unsupported(why)); }

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

constexpr std::string_view float_of = R"(
__aicore__ inline float FloatOf(uint32_t bits) {
  union {
    uint32_t bits;
    float number;
  } both = {bits};
  return both.number;
}
)";

// Memories of a core, with what the kernel calls them and where Ascend C has them.
struct Place {
  Space space;
  CoreKind kind;
  const char *name, *position;
};
constexpr std::array<Place, 5> places_of_memories{{{Space::vector, CoreKind::vector, "memory", "VECCALC"},
                                                   {Space::staging, CoreKind::cube, "l1", "A1"},
                                                   {Space::left, CoreKind::cube, "l0a", "A2"},
                                                   {Space::right, CoreKind::cube, "l0b", "B2"},
                                                   {Space::accumulator, CoreKind::cube, "l0c", "CO1"}}};

// What the cores of one kind run.
class Part {
 public:
  Part(const VerbLog& log, const Device& device, CoreKind kind, bool mixed)
      : log_(log), device_(device), kind_(kind), mixed_(mixed), names_(log, kind) {
    for (const VerbLog::Stream& stream : log.streams)
      if (runs_on(stream, kind))
        workers_ = std::max(workers_, worker_of(stream) + 1), work_ = work_ || !stream.verbs.empty();
  }

  bool works() const { return work_; }
  std::int64_t workers() const { return workers_; }
  const Names& names() const { return names_; }

  // Its lines, `indent` deep.
  tl::expected<std::string, Status> body(std::size_t indent, std::set<std::string>& functions) {
    auto classes = programs_of(functions);
    if (!classes) return tl::unexpected<Status>(std::move(classes.error()));
    Formulas formulas(workers_);
    std::string lines;
    const std::string margin(2 * indent, ' ');
    bool first = true;
    for (Alike& alike : *classes) {
      const bool all = static_cast<std::int64_t>(alike.workers.size()) == workers_;
      const std::string part = lines_of(rolled(formulas.joined(alike)), indent + (all ? 0 : 1));
      if (!all) lines += (first ? margin + "if (" : " else if (") + condition(alike.workers, workers_) + ") {\n";
      lines += part + (all ? "" : margin + "}");
      first = false;
    }
    replace_all(lines, "[0 + ", "["), replace_all(lines, "(0 + ", "("), replace_all(lines, "[0]", "");
    replace_all(lines, " 1 * worker", " worker"), replace_all(lines, " 1 * (worker", " (worker");
    if (!lines.empty() && lines.back() != '\n') lines += "\n";
    auto memories = declared(margin, lines.find("scratch") != lines.npos);
    if (!memories) return memories;
    std::string result = *memories + margin + "const uint32_t worker = GetBlockIdx();\n" + margin +
                         "if (worker >= " + std::to_string(workers_) +
                         ") return;  // to be launched on so many blocks\n";
    std::string parts = formulas.declarations();
    if (!parts.empty()) {
      replace_all(parts, "\n", "\n" + margin);
      result += margin + parts.substr(0, parts.size() - margin.size());
    }
    return result + "\n" + lines;
  }

 private:
  std::int64_t worker_of(const VerbLog::Stream& stream) const {
    return kind_ == CoreKind::vector ? stream.vector_worker : stream.core;
  }

  // Cores whose statements differ in numbers alone are of one class.
  tl::expected<std::vector<Alike>, Status> programs_of(std::set<std::string>& functions) const {
    std::vector<Alike> classes;
    std::vector<std::string> keys;
    for (const VerbLog::Stream& stream : log_.streams) {
      if (!runs_on(stream, kind_)) continue;
      Statements made(names_, functions, mixed_);
      for (const Verb& verb : stream.verbs)
        if (Status status = made.add(verb); !status.ok()) return tl::unexpected<Status>(std::move(status));
      std::vector<Statement> statements = made.take();
      if (statements.empty()) continue;
      std::string key;
      for (const Statement& each : statements) key += each.text + "\n";
      const auto found = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
      if (found == keys.size()) keys.push_back(std::move(key)), classes.emplace_back();
      classes[found].workers.push_back(worker_of(stream));
      classes[found].programs.push_back(std::move(statements));
    }
    if (classes.size() > most_programs)
      return failed("the cores run " + std::to_string(classes.size()) + " programs that differ in more than numbers; " +
                    std::to_string(most_programs) + " are written out at most");
    return classes;
  }

  // Buffers, and the tensors in them; the functions' scratch lies behind the program's own in the vector memory.
  tl::expected<std::string, Status> declared(const std::string& margin, bool uses_scratch) const {
    std::string text;
    const auto local = [&](const char* buffer, const std::string& type, const std::string& name, std::uint64_t elements,
                           std::uint64_t begin) {
      return margin + "const LocalTensor<" + type + "> " + name + " = " + buffer + ".GetWithOffset<" + type + ">(" +
             std::to_string(elements) + ", " + std::to_string(begin) + ");";
    };
    for (const Place& place : places_of_memories) {
      std::uint64_t taken = 0;
      for (const Named& each : names_.locals())
        if (each.space == place.space) taken = std::max(taken, each.end);
      if (place.kind != kind_ || (taken == 0 && !uses_scratch)) continue;
      const Memory& memory = device_.memory(place.space);
      taken = (taken + 31) / 32 * 32;
      if (uses_scratch && taken + scratch_bytes > memory.bytes)
        return failed("the functions' scratch takes " + std::to_string(scratch_bytes) + " bytes of " + memory.name +
                      ", of which the program leaves " + std::to_string(memory.bytes - taken));
      if (taken > memory.bytes)
        return failed("sums whose rows come in sixteens take " + std::to_string(taken) + " bytes of " + memory.name +
                      ", which has " + std::to_string(memory.bytes));
      text += margin + "TBuf<TPosition::" + place.position + "> " + place.name + ";\n" + margin + "pipe.InitBuffer(" +
              place.name + ", " + std::to_string(memory.bytes) + ");\n";
      for (const Named& each : names_.locals()) {
        if (each.space != place.space) continue;
        text += local(place.name, type_of(each.dtype), each.identifier,
                      (each.end - each.begin) * 8 / static_cast<std::uint64_t>(bits(each.dtype)), each.begin);
        text += each.slots > 1 ? "  // " + std::to_string(each.slots) + " slots\n" : "\n";
      }
      if (uses_scratch) text += local(place.name, "float", "scratch", scratch_bytes / 4, taken) + "\n";
    }
    return text;
  }

  const VerbLog& log_;
  const Device& device_;
  const CoreKind kind_;
  const bool mixed_;
  const Names names_;
  std::int64_t workers_ = 0;
  bool work_ = false;
};

}  // namespace

tl::expected<std::string, Status> ascend_c(const VerbLog& log, const Device& device, const std::string& kernel,
                                           const std::string& about) {
  std::size_t verbs = 0;
  bool mixed = false;
  for (const VerbLog::Stream& stream : log.streams) {
    verbs += stream.verbs.size();
    for (const Verb& verb : stream.verbs) mixed = mixed || (!stream.has_vector && verb.entry.event != Event::sync_all);
  }
  if (verbs > most_verbs)
    return failed("a program of " + std::to_string(verbs) + " verbs is too long; " + std::to_string(most_verbs) +
                  " are written out at most, and a smaller shape has the same loops");
  if (device.streams.empty())
    return failed(device.name + " has one stream for all its queues; Ascend C is for cube and vector cores apart");
  Part cubes(log, device, CoreKind::cube, mixed), vectors(log, device, CoreKind::vector, mixed);
  if (vectors.workers() > 64)
    return failed(std::to_string(vectors.workers()) + " vector cores are too many; 64 at most");

  std::map<std::uint32_t, Named> globals = vectors.names().globals();
  if (mixed) globals.insert(cubes.names().globals().begin(), cubes.names().globals().end());
  for (const auto& [buffer, each] : globals)
    if (each.end * 8 / static_cast<std::uint64_t>(bits(each.dtype)) > std::uint64_t{1} << 32)
      return failed(each.identifier + " has more elements than the kernel's 32 bits count");

  std::set<std::string> functions;
  std::string body;
  for (Part* part : {&cubes, &vectors}) {
    if (part == &cubes && !mixed) continue;
    auto lines = part->body(mixed ? 2 : 1, functions);
    if (!lines) return lines;
    const char* const kind = part == &cubes ? "AIC" : "AIV";
    body += mixed ? "  if ASCEND_IS_" + std::string(kind) + " {\n" + *lines + "  }\n" : *lines;
  }

  std::string text = "// " + about + "\n#include \"kernel_operator.h\"\n\nusing namespace AscendC;\n";
  std::string helpers;
  for (const std::string& function : functions) helpers += function;
  if ((helpers + body).find("FloatOf") != helpers.npos) text += float_of;
  text += helpers + "\nextern \"C\" __global__ __aicore__ void " + kernel + "(";
  for (const auto& [buffer, each] : globals)
    text += (buffer == globals.begin()->first ? "GM_ADDR " : ", GM_ADDR ") + each.identifier + "_address";
  text += ") {\n  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_" + std::string(mixed ? "MIX_AIC_1_2" : "AIV_ONLY") +
          ");\n  TPipe pipe;\n";
  for (const auto& [buffer, each] : globals) {
    const std::string type = type_of(each.dtype);
    text += "  GlobalTensor<" + type + "> " + each.identifier + "_gm;\n  " + each.identifier +
            "_gm.SetGlobalBuffer((__gm__ " + type + "*)" + each.identifier + "_address);\n";
  }
  return text + body + "}\n";
}

}  // namespace inlay::npu::emit
