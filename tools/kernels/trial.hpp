// One random case of an operator: drawn between pages that nobody may touch, computed by the reference in double, by
// our CPU, and in a process of its own by somebody's kernel.
#pragma once

#include <cmath>
#include <functional>

#include <inlay/cpu.hpp>

#include "measure/cases/compare.hpp"
#include "measure/cases/draw.hpp"
#include "tools/kernels/kernel.hpp"
#include "tools/kernels/planted.hpp"

namespace inlay::tools {

struct Trial {
  enum class Verdict { right, declined, wrong } verdict = Verdict::right;
  double worst = 0;   // error in units of what it may be
  std::string words;  // what is wrong
  bool none = false;  // the case has nothing to compare; the fields below are not set
  double ours = 0;    // the worst error of our CPU
  std::string call;   // the case: x f32 [3, 33], eps 1
};

// Runs body in a process of its own; a signal, or an end that does not come, is a wrong verdict.
Trial apart(const std::function<Trial()>& body);
// The arguments that are not what they are where a caller leaves them out.
std::string describe(const c::Call& call, const c::Call& left_out);

struct Rooms {
  cases::Rooms memory{96, std::size_t{1} << 20};
};

// `score`: of the operator, or null where nobody asks for it.
template <class Op> Trial trial(const Kernel& kernel, Rooms& rooms, std::uint64_t seed, Score* score) {
  constexpr index largest = index{1} << 17;
  cases::Draw d(rooms.memory, seed);
  Op op{};
  draw(d, op);
  bool large = false;
  for_each_view(op, [&](const auto&, const auto& view) {
    large = large || (!view.empty() && (view.size() > largest || !d.owns(view)));
  });
  Trial result;
  result.none = true;
  if (large || !check(op).ok() || writes_nothing(op)) return result;
  d.remember();
  if (!inlay::run(Reference{}, op).ok()) return result;  // the data have no answer
  const std::vector<cases::Written> expected = cases::written(op);
  const auto from_reference = [&] { return cases::distance(expected, cases::written(op), cases::nearness(op)); };

  d.restore();
  static const Cpu cpu{serial()};
  const Status status = inlay::run(cpu, op);
  const double ours = status.ok() ? from_reference().worst : 0;

  d.restore();
  const c::Call call = c::call_of(op);
  result = apart([&] {
    Trial found;
    const inlay_code code = kernel.run(Op::name.data(), call);
    const auto owned = cases::written_bytes(d.placed(), op);
    const bool done = code == INLAY_OK;
    for (std::size_t i = 0; i < owned.size(); ++i)
      for (std::size_t b = 0; b < owned[i].size(); ++b)
        if ((!done || !owned[i][b]) && d.placed()[i].begin[b] != d.placed()[i].before[b]) {
          found.verdict = Trial::Verdict::wrong;
          found.words =
              done ? "it wrote a byte that is no element of an output" : "it refused the call, and wrote to an operand";
          return found;
        }
    if (code == INLAY_UNSUPPORTED) {
      found.verdict = Trial::Verdict::declined;
    } else if (!done) {
      found.verdict = Trial::Verdict::wrong;
      found.words = "it refused what is within the contract, with code " + number(code) + ": " + kernel.message();
    } else {
      const cases::Distance distance = from_reference();
      found.worst = distance.worst;
      found.words = distance.words;
      if (!distance.words.empty()) found.verdict = Trial::Verdict::wrong;
    }
    return found;
  });
  if (std::isinf(result.worst))
    if (const Status again = kernel.recover(); !again.ok()) result.words += "; " + std::string(again.message());
  if (score != nullptr && result.verdict != Trial::Verdict::declined) tell(*score, d, op, expected);
  result.ours = ours;
  result.call = describe(call, c::call_of(Op{}));
  return result;
}

// An operator that can be tried.
struct Tried {
  const char* name;
  Trial (*run)(const Kernel& kernel, Rooms& rooms, std::uint64_t seed, Score* score);
  Score (*score)();
};
template <class Op> inline constexpr Tried tried{Op::name.data(), trial<Op>, score_of<Op>};

extern const std::span<const Tried> tried_attention, tried_linears, tried_rows;  // a unit each

}  // namespace inlay::tools
