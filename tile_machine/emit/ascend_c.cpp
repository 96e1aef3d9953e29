#include "tile_machine/emit/ascend_c.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <optional>

#include "tile_machine/emit/statements.hpp"
#include "tile_machine/events/sites.hpp"

namespace inlay::npu::emit {

namespace {

constexpr std::size_t most_verbs = std::size_t{1} << 18, most_programs = 8;

using Numbers = std::vector<std::int64_t>;

// Cores whose statements differ in numbers alone.
struct Alike {
  Numbers workers;
  std::vector<std::vector<Statement>> programs;  // of each
};

tl::unexpected<Status> failed(const std::string& why) { return tl::unexpected<Status>(unsupported(why)); }

// The parts of `units` that workers before this one have: units * worker / workers, rounded down.
struct Parts {
  std::int64_t workers;
  Numbers units;  // that some number depends on

  // `numbers` - numbers[0] = step * (parts of worker - parts of the first); 0: it is not.
  std::int64_t step(const Numbers& workers_of, const Numbers& numbers, std::int64_t of) const {
    const auto part = [&](std::int64_t worker) { return of * worker / workers; };
    const std::int64_t all = part(workers_of.back()) - part(workers_of[0]);
    if (all == 0 || (numbers.back() - numbers[0]) % all != 0) return 0;
    const std::int64_t step = (numbers.back() - numbers[0]) / all;
    for (std::size_t i = 0; i < numbers.size(); ++i)
      if (numbers[i] - numbers[0] != step * (part(workers_of[i]) - part(workers_of[0]))) return 0;
    return step;
  }
};

// A number of all workers of a class as the base of the first formula that gives it, and that formula's other part:
// " + 4096 * worker", " + 4096 * part_142". No formula: none.
struct OfWorker {
  std::int64_t base = 0;
  std::string rest;
};
std::optional<OfWorker> of_worker(const Numbers& workers, const Numbers& numbers, Parts& parts) {
  if (std::all_of(numbers.begin(), numbers.end(), [&](std::int64_t n) { return n == numbers[0]; }))
    return OfWorker{numbers[0], ""};
  const auto times = [](std::int64_t step, const std::string& of) {
    return (step < 0 ? " - " : " + ") + std::to_string(step < 0 ? -step : step) + " * " + of;
  };
  const std::int64_t span = workers[1] - workers[0], step = (numbers[1] - numbers[0]) / span;
  bool affine = (numbers[1] - numbers[0]) % span == 0;
  for (std::size_t i = 0; i < numbers.size(); ++i)
    affine = affine && numbers[i] - numbers[0] == step * (workers[i] - workers[0]);
  if (affine) return OfWorker{numbers[0] - step * workers[0], times(step, "worker")};
  std::int64_t unit = 0;
  for (const std::int64_t n : numbers) unit = std::gcd(unit, n - numbers[0]);
  const std::int64_t about = (numbers.back() - numbers[0]) / unit * parts.workers / (workers.back() - workers[0]);
  Numbers candidates = parts.units;
  for (std::int64_t near = 0; near <= 2 * parts.workers; ++near) {
    candidates.push_back(about + near);
    if (near <= about) candidates.push_back(about - near);
  }
  for (const std::int64_t units : candidates) {
    const std::int64_t found = units > 0 ? parts.step(workers, numbers, units) : 0;
    if (found == 0) continue;
    if (std::find(parts.units.begin(), parts.units.end(), units) == parts.units.end()) parts.units.push_back(units);
    return OfWorker{numbers[0] - found * (units * workers[0] / parts.workers),
                    times(found, "part_" + std::to_string(units))};
  }
  return std::nullopt;
}

// One program for all of them: its numbers as formulas of the worker.
tl::expected<std::vector<Statement>, Status> joined(Alike& alike, Parts& parts) {
  std::vector<Statement> result = std::move(alike.programs[0]);
  for (std::size_t s = 0; s < result.size(); ++s)
    for (std::size_t v = 0; v < result[s].values.size(); ++v) {
      Numbers numbers{result[s].values[v].base};
      for (std::size_t i = 1; i < alike.programs.size(); ++i) numbers.push_back(alike.programs[i][s].values[v].base);
      const auto found = of_worker(alike.workers, numbers, parts);
      if (!found)
        return failed("no formula of the core's number gives $" + std::to_string(v) + " of " + result[s].text +
                      ", which is " + std::to_string(numbers[0]) + " on core " + std::to_string(alike.workers[0]) +
                      " and " + std::to_string(numbers.back()) + " on core " + std::to_string(alike.workers.back()));
      const std::string mark = "$" + std::to_string(v);
      result[s].values[v].base = found->base;
      result[s].text.insert(result[s].text.find(mark) + mark.size(), found->rest);
    }
  return result;
}

std::string condition(const Numbers& workers, std::int64_t all) {
  const std::int64_t first = workers[0], last = workers.back();
  if (last - first + 1 == static_cast<std::int64_t>(workers.size())) {
    if (first == last) return "worker == " + std::to_string(first);
    if (first == 0) return "worker < " + std::to_string(last + 1);
    if (last + 1 == all) return "worker >= " + std::to_string(first);
    return "worker >= " + std::to_string(first) + " && worker <= " + std::to_string(last);
  }
  std::uint64_t mask = 0;
  for (const std::int64_t worker : workers) mask |= std::uint64_t{1} << worker;
  char text[64];
  std::snprintf(text, sizeof text, "(0x%llxull >> worker & 1) != 0", static_cast<unsigned long long>(mask));
  return text;
}

tl::expected<std::vector<Alike>, Status> programs_of(const VerbLog& log, const Names& names,
                                                     std::set<std::string>& functions) {
  std::vector<Alike> classes;
  std::vector<std::string> keys;
  for (const VerbLog::Stream& stream : log.streams) {
    if (!stream.has_vector) {
      if (stream.verbs.empty()) continue;
      const Entry& entry = stream.verbs.front().entry;
      return failed("the program also runs on the cube core, whose verbs have no Ascend C yet: " +
                    std::string(entry.verb) + " (" + line_of(entry.site) + ")");
    }
    Statements made(names, functions);
    for (const Verb& verb : stream.verbs)
      if (Status status = made.add(verb); !status.ok()) return tl::unexpected<Status>(std::move(status));
    std::vector<Statement> statements = made.take();
    if (statements.empty()) continue;
    std::string key;
    for (const Statement& each : statements) key += each.text + "\n";
    const auto found = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
    if (found == keys.size()) keys.push_back(std::move(key)), classes.emplace_back();
    classes[found].workers.push_back(stream.vector_worker);
    classes[found].programs.push_back(std::move(statements));
  }
  if (classes.size() > most_programs)
    return failed("the cores run " + std::to_string(classes.size()) + " programs that differ in more than numbers; " +
                  std::to_string(most_programs) + " are written out at most");
  return classes;
}

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

}  // namespace

tl::expected<std::string, Status> ascend_c(const VerbLog& log, const Device& device, const std::string& kernel,
                                           const std::string& about) {
  std::size_t verbs = 0;
  std::int64_t workers = 1;
  for (const VerbLog::Stream& stream : log.streams) {
    verbs += stream.verbs.size();
    if (stream.has_vector) workers = stream.vector_workers;
  }
  if (verbs > most_verbs)
    return failed("a program of " + std::to_string(verbs) + " verbs is too long; " + std::to_string(most_verbs) +
                  " are written out at most, and a smaller shape has the same loops");
  if (workers > 64) return failed(std::to_string(workers) + " vector cores are too many; 64 at most");
  if (device.streams.empty())
    return failed(device.name + " has one stream for all its queues; Ascend C is for cube and vector cores apart");
  const Names names(log);
  for (const Named& each : names.globals())
    if (each.end * 8 / static_cast<std::uint64_t>(bits(each.dtype)) > std::uint64_t{1} << 32)
      return failed(each.identifier + " has more elements than the kernel's 32 bits count");
  std::set<std::string> functions;
  auto classes = programs_of(log, names, functions);
  if (!classes) return tl::unexpected<Status>(std::move(classes.error()));

  const std::uint64_t room = device.memory(Space::vector).bytes;
  std::uint64_t taken = 0;
  for (const Named& local : names.locals()) taken = std::max(taken, local.end);
  taken = (taken + 31) / 32 * 32;
  Parts parts{workers, {}};
  std::string body;
  bool first = true, uses_scratch = false;
  for (Alike& alike : *classes) {
    auto program = joined(alike, parts);
    if (!program) return tl::unexpected<Status>(std::move(program.error()));
    const bool all = static_cast<std::int64_t>(alike.workers.size()) == workers;
    std::string lines = lines_of(rolled(std::move(*program)), all ? 1 : 2);
    if (!all) body += (first ? "  if (" : " else if (") + condition(alike.workers, workers) + ") {\n";
    uses_scratch = uses_scratch || lines.find("scratch") != lines.npos;
    body += lines + (all ? "" : "  }");
    first = false;
  }
  replace_all(body, "[0 + ", "["), replace_all(body, "(0 + ", "("), replace_all(body, "[0]", "");
  replace_all(body, " 1 * worker", " worker");
  if (uses_scratch && taken + scratch_bytes > room)
    return failed("the functions' scratch takes " + std::to_string(scratch_bytes) + " bytes of " +
                  device.memory(Space::vector).name + ", of which the program leaves " + std::to_string(room - taken));

  std::string text = "// " + about + "\n#include \"kernel_operator.h\"\n\nusing namespace AscendC;\n";
  std::string helpers;
  for (const std::string& function : functions) helpers += function;
  if ((helpers + body).find("FloatOf") != helpers.npos) text += float_of;
  text += helpers + "\nextern \"C\" __global__ __aicore__ void " + kernel + "(";
  const std::vector<Named> globals = names.globals();
  for (const Named& each : globals)
    text += (&each == globals.data() ? "GM_ADDR " : ", GM_ADDR ") + each.identifier + "_address";
  text += ") {\n  KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);\n  TPipe pipe;\n  TBuf<TPosition::VECCALC> memory;\n";
  text += "  pipe.InitBuffer(memory, " + std::to_string(room) + ");\n";
  for (const Named& each : globals) {
    const std::string type = type_of(each.dtype);
    text += "  GlobalTensor<" + type + "> " + each.identifier + "_gm;\n  " + each.identifier +
            "_gm.SetGlobalBuffer((__gm__ " + type + "*)" + each.identifier + "_address);\n";
  }
  const auto local = [&](const std::string& type, const std::string& name, std::uint64_t elements,
                         std::uint64_t begin) {
    return "  const LocalTensor<" + type + "> " + name + " = memory.GetWithOffset<" + type + ">(" +
           std::to_string(elements) + ", " + std::to_string(begin) + ");";
  };
  for (const Named& each : names.locals()) {
    text += local(type_of(each.dtype), each.identifier,
                  (each.end - each.begin) * 8 / static_cast<std::uint64_t>(bits(each.dtype)), each.begin);
    text += each.slots > 1 ? "  // " + std::to_string(each.slots) + " slots\n" : "\n";
  }
  if (uses_scratch) text += local("float", "scratch", scratch_bytes / 4, taken) + "\n";
  text += "  const uint32_t worker = GetBlockIdx();\n  if (worker >= " + std::to_string(workers) +
          ") return;  // to be launched on so many blocks\n";
  for (const std::int64_t units : parts.units)
    text += "  const uint32_t part_" + std::to_string(units) + " = " + std::to_string(units) + " * worker / " +
            std::to_string(workers) + ";\n";
  return text + "\n" + body + (body.empty() || body.back() == '\n' ? "}\n" : "\n}\n");
}

}  // namespace inlay::npu::emit
