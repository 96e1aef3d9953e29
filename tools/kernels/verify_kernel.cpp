#include "tools/kernels/verify_kernel.hpp"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <vector>

#include <inlay/core/quote.hpp>

#include "tools/kernels/trial.hpp"
#include "tools/session.hpp"

namespace inlay::tools {

namespace {

constexpr unsigned patience = 60;  // seconds of a case
constexpr double suspicious = 20;  // times the error of our CPU: no order of sums explains it

// What a child tells its parent: the verdict, the error, the words.
void send(int pipe, const Trial& trial) {
  std::string bytes(reinterpret_cast<const char*>(&trial.verdict), sizeof trial.verdict);
  bytes.append(reinterpret_cast<const char*>(&trial.worst), sizeof trial.worst);
  bytes += trial.words.substr(0, 4000);  // as much as a pipe takes at once
  [[maybe_unused]] const ssize_t written = write(pipe, bytes.data(), bytes.size());
}

bool receive(int pipe, Trial& trial) {
  std::string bytes;
  char some[4096];
  for (ssize_t got; (got = read(pipe, some, sizeof some)) > 0;) bytes.append(some, static_cast<std::size_t>(got));
  constexpr std::size_t head = sizeof trial.verdict + sizeof trial.worst;
  if (bytes.size() < head) return false;
  std::memcpy(&trial.verdict, bytes.data(), sizeof trial.verdict);
  std::memcpy(&trial.worst, bytes.data() + sizeof trial.verdict, sizeof trial.worst);
  trial.words = bytes.substr(head);
  return true;
}

std::string words_of_end(int status) {
  if (!WIFSIGNALED(status)) return "it ended the process";
  switch (WTERMSIG(status)) {
    case SIGSEGV:
    case SIGBUS: return "it read or wrote beside an operand (the process has crashed)";
    case SIGALRM: return "it did not come back within " + std::to_string(patience) + " seconds";
    default: return "it ended the process: " + std::string(strsignal(WTERMSIG(status)));
  }
}

const Tried* find(const std::string& op, std::string& known) {
  const Tried* found = nullptr;
  for (const auto& group : {tried_attention, tried_linears, tried_rows})
    for (const Tried& one : group) {
      known += (known.empty() ? "" : " ") + std::string(one.name);
      if (op == one.name) found = &one;
    }
  return found;
}

std::string units(double error) {
  char text[32];
  std::snprintf(text, sizeof text, error == 0 || (error >= 0.001 && error < 1000) ? "%8.3f" : "%8.1e", error);
  return text;
}

}  // namespace

Trial apart(const std::function<Trial()>& body) {
  Trial result;
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("no pipe");
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("no process");
  if (child == 0) {
    close(ends[0]);
    alarm(patience);
    send(ends[1], body());
    _exit(0);
  }
  close(ends[1]);
  const bool told = receive(ends[0], result);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (!told) {
    result.verdict = Trial::Verdict::wrong;
    result.worst = std::numeric_limits<double>::infinity();
    result.words = words_of_end(status);
  }
  return result;
}

namespace {

std::string value_of(const inlay_argument& argument) {
  const auto of_tensor = [](const DLTensor& tensor) {
    std::string shape, strides;
    int64_t step = 1;
    bool contiguous = true;
    for (int d = tensor.ndim - 1; d >= 0; --d) {
      contiguous &= tensor.strides[d] == step || tensor.shape[d] <= 1;
      step *= tensor.shape[d];
    }
    for (int d = 0; d < tensor.ndim; ++d) {
      shape += (d > 0 ? ", " : "") + std::to_string(tensor.shape[d]);
      strides += (d > 0 ? ", " : "") + std::to_string(tensor.strides[d]);
    }
    return std::string(name_of(tensor.dtype)) + " [" + shape + "]" + (contiguous ? "" : " strides [" + strides + "]");
  };
  char digits[32];
  switch (argument.kind) {
    case INLAY_TENSOR: return of_tensor(*argument.tensor);
    case INLAY_LIST: {
      std::string all;
      for (std::size_t i = 0; i < argument.list.count; ++i)
        all += (i > 0 ? "; " : "") + of_tensor(*argument.list.tensors[i]);
      return "{" + all + "}";
    }
    case INLAY_NUMBER: std::snprintf(digits, sizeof digits, "%.9g", argument.number); return digits;
    case INLAY_WORD: return argument.word;
    default: return std::to_string(argument.integer);
  }
}

}  // namespace

std::string describe(const c::Call& call, const c::Call& left_out) {
  std::string words;
  for (const inlay_argument& argument : call.arguments) {
    const std::string value = value_of(argument);
    bool is_default = false;
    for (const inlay_argument& other : left_out.arguments)
      is_default |= std::strcmp(other.name, argument.name) == 0 && value_of(other) == value;
    if (!is_default) words += (words.empty() ? "" : ", ") + std::string(argument.name) + " " + value;
  }
  return words;
}

int verify_kernel(const KernelOptions& options, std::ostream& out) {
  std::string known;
  const Tried* const op = find(options.op, known);
  if (op == nullptr) return wrong(invalid("--op is " + Text(quote(options.op)) + "; it must be one of " + Text(known)));
  const auto kernel = Kernel::load(options.library, options.symbol);
  if (!kernel) return wrong(kernel.error());

  Rooms rooms;
  Score score;
  if (options.score) score = op->score();
  int counts[3] = {};
  double worst = 0, ours = 0;
  std::uint64_t first_wrong = 0;
  constexpr const char* names[] = {"right", "declined", "WRONG"};
  out << "verdict      error      ours      seed  case            (errors in units of what they may be)\n";
  std::uint64_t seed = options.seed;
  // Some structs have nothing to write; of those that are tried there are as many as asked for, or nearly.
  for (int tried = 0, drawn = 0; tried < options.cases && drawn < 20 * options.cases; ++drawn, ++seed) {
    const Trial trial = op->run(*kernel, rooms, seed, options.score ? &score : nullptr);
    if (trial.none) continue;
    ++tried;
    ++counts[static_cast<int>(trial.verdict)];
    const bool declined = trial.verdict == Trial::Verdict::declined;
    if (trial.verdict == Trial::Verdict::wrong && first_wrong == 0) first_wrong = seed;
    if (!declined) worst = std::max(worst, trial.worst), ours = std::max(ours, trial.ours);
    char line[64];
    std::snprintf(line, sizeof line, "%-8s  %8s  %8s  %8llu  ", names[static_cast<int>(trial.verdict)],
                  declined ? "-" : units(trial.worst).c_str(), units(trial.ours).c_str(),
                  static_cast<unsigned long long>(seed));
    out << line << op->name << ": " << trial.call << '\n';
    if (!trial.words.empty()) out << "          " << trial.words << '\n';
  }
  out << op->name << ": " << counts[0] << " right, " << counts[1] << " declined, " << counts[2] << " wrong; worst error"
      << units(worst) << ", ours" << units(ours) << '\n';
  if (counts[2] == 0 && worst > suspicious * ours && worst > 0.01)
    out << "within the bound, but" << units(worst / ours) << " times our error: is it another formula?\n";
  if (first_wrong != 0) out << "the first wrong one again: --seed " << first_wrong << " --cases 1\n";
  if (options.score) {
    out << "of " << score.bugs.size() << " planted bugs these cases tell " << score.told() << '\n';
    for (const Score::Bug& bug : score.bugs)
      if (!bug.told) out << (bug.arose ? "          not told: it " : "          no case of: it ") << bug.name << '\n';
  }
  if (counts[0] + counts[2] == 0) out << "nothing was computed: each case was declined\n";
  return counts[2] == 0 && counts[0] > 0 ? 0 : 1;
}

}  // namespace inlay::tools
