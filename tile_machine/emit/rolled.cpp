#include "tile_machine/emit/rolled.hpp"

#include <algorithm>
#include <map>
#include <optional>

namespace inlay::npu::emit {

namespace {

constexpr std::int64_t longest_cycle = 4;     // slots of a ring
constexpr std::size_t longest_period = 1024;  // statements of a body

// All but the bases: statements of one signature differ in these alone.
void describe(const Statement& statement, std::string& to) {
  to += statement.text + "\n" + std::to_string(statement.trips) + "{";
  for (const Value& value : statement.values)
    for (const Term& term : value.terms)
      for (const std::int64_t part : {static_cast<std::int64_t>(term.up), term.step, term.cycle, term.phase})
        to += std::to_string(part) + ",";
  for (const Statement& each : statement.body) describe(each, to);
  to += "}";
}

// Visits the values, with the number of loops of the statement that each is inside of.
template <class S, class Visit> void for_each_value(S& statement, std::size_t depth, Visit&& visit) {
  for (auto& value : statement.values) visit(value, depth);
  for (auto& each : statement.body) for_each_value(each, depth + 1, visit);
}

std::vector<std::int64_t> bases_of(const Statement& statement) {
  std::vector<std::int64_t> result;
  for_each_value(statement, 0, [&](const Value& value, std::size_t) { result.push_back(value.base); });
  return result;
}

struct Form {
  std::int64_t base = 0;
  Term term{};
  std::size_t holds = 0;  // for so many of the sequence
};

std::int64_t at(const Form& form, std::size_t i) {
  const auto count = static_cast<std::int64_t>(i);
  return form.base + form.term.step * (form.term.cycle > 0 ? (count + form.term.phase) % form.term.cycle : count);
}

void measure(Form& form, const std::vector<std::int64_t>& values) {
  while (form.holds < values.size() && at(form, form.holds) == values[form.holds]) ++form.holds;
}

// The first of the simplest forms that hold longest.
Form form_of(const std::vector<std::int64_t>& values) {
  Form best{values[0], {0, values.size() > 1 ? values[1] - values[0] : 0, 0, 0}, 0};
  measure(best, values);
  for (std::int64_t cycle = 2; cycle <= longest_cycle; ++cycle) {
    const auto n = static_cast<std::size_t>(cycle);
    if (values.size() <= n) break;
    for (std::int64_t phase = 0; phase < cycle; ++phase) {
      const std::size_t first = static_cast<std::size_t>(cycle - phase) % n, second = (first + 1) % n;
      Form form{values[first], {0, values[second] - values[first], cycle, phase}, 0};
      measure(form, values);
      if (form.holds > best.holds) best = form;
    }
  }
  return best;
}

struct Repeat {
  std::size_t first = 0, period = 0, trips = 0;
  std::vector<Form> forms{};
  std::size_t saved() const { return (trips - 1) * period; }
};

// How often the stretch at `first` comes, and how its numbers go; at most `most` times.
Repeat repeat_of(const std::vector<std::vector<std::int64_t>>& bases, std::size_t first, std::size_t period,
                 std::size_t most) {
  Repeat result{first, period, most, {}};
  std::vector<std::int64_t> values;
  std::vector<std::vector<std::int64_t>> all;
  for (std::size_t j = 0; j < period; ++j)
    for (std::size_t v = 0; v < bases[first + j].size(); ++v) {
      values.clear();
      for (std::size_t i = 0; i < most; ++i) values.push_back(bases[first + j + i * period][v]);
      result.trips = std::min(result.trips, form_of(values).holds);
      all.push_back(values);
    }
  // A form that goes around is found by the number that follows: where the others end sooner, of all of them.
  for (const std::vector<std::int64_t>& each : all) {
    const Form simple = form_of({each.begin(), each.begin() + static_cast<std::ptrdiff_t>(result.trips)});
    result.forms.push_back(simple.holds < result.trips ? form_of(each) : simple);
  }
  return result;
}

std::optional<Repeat> best_repeat(const std::vector<Statement>& statements) {
  std::map<std::string, std::size_t> numbers;
  std::vector<std::size_t> kinds;
  std::vector<std::vector<std::int64_t>> bases;
  for (const Statement& each : statements) {
    std::string text;
    describe(each, text);
    kinds.push_back(numbers.emplace(text, numbers.size()).first->second);
    bases.push_back(bases_of(each));
  }
  std::optional<Repeat> best;
  const std::size_t size = statements.size();
  std::vector<std::size_t> alike(size + 1);  // from here on so many statements are as those a period later
  for (std::size_t period = 1; period <= std::min(longest_period, size / 2); ++period) {
    std::fill(alike.begin(), alike.end(), 0);
    for (std::size_t i = size - period; i-- > 0;) alike[i] = kinds[i] == kinds[i + period] ? alike[i + 1] + 1 : 0;
    for (std::size_t i = 0; i + period < size; ++i) {
      const std::size_t most = alike[i] / period + 1;
      const bool may = most >= 3 || (most == 2 && period >= 4);
      if (!may || (best && (most - 1) * period <= best->saved())) continue;
      Repeat found = repeat_of(bases, i, period, most);
      if (found.trips < 2 || (found.trips == 2 && period < 4)) continue;
      if (!best || found.saved() > best->saved()) best = std::move(found);
    }
  }
  return best;
}

// The stretch becomes one loop. What its values owe to loops further out is one loop further out.
Statement loop_of(const std::vector<Statement>& statements, const Repeat& repeat) {
  Statement loop;
  loop.trips = static_cast<std::int64_t>(repeat.trips);
  const auto first = statements.begin() + static_cast<std::ptrdiff_t>(repeat.first);
  loop.body.assign(first, first + static_cast<std::ptrdiff_t>(repeat.period));
  std::size_t next = 0;
  for (Statement& each : loop.body)
    for_each_value(each, 0, [&](Value& value, std::size_t depth) {
      const Form& form = repeat.forms[next++];
      for (Term& term : value.terms)
        if (term.up >= depth) ++term.up;
      value.base = form.base;
      if (form.term.step == 0) return;
      Term term = form.term;
      term.up = depth;
      value.terms.push_back(term);
    });
  return loop;
}

std::string text_of(const Value& value, std::size_t depth) {
  std::string result;
  std::vector<Term> terms = value.terms;
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.up > b.up; });
  if (value.base != 0 || terms.empty()) result = std::to_string(value.base);
  for (const Term& term : terms) {
    const std::string counter(1, static_cast<char>('i' + (depth - 1 - term.up)));
    std::string factor = counter;
    if (term.cycle > 0 && term.phase == 0) factor = counter + " % " + std::to_string(term.cycle);
    if (term.cycle > 0 && term.phase != 0)
      factor = "(" + counter + " + " + std::to_string(term.phase) + ") % " + std::to_string(term.cycle);
    const std::int64_t step = term.step < 0 ? -term.step : term.step;
    if (step != 1) factor = std::to_string(step) + " * " + (term.cycle > 0 ? "(" + factor + ")" : factor);
    if (result.empty())
      result = (term.step < 0 ? "-" : "") + (step == 1 && term.step < 0 ? "(" + factor + ")" : factor);
    else
      result += (term.step < 0 ? " - " : " + ") + (step == 1 && term.cycle > 0 ? "(" + factor + ")" : factor);
  }
  return result;
}

void append(const std::vector<Statement>& statements, std::size_t indent, std::size_t depth, std::string& to) {
  for (const Statement& each : statements) {
    to.append(2 * indent, ' ');
    if (each.is_loop()) {
      const std::string counter(1, static_cast<char>('i' + depth));
      to += "for (uint32_t " + counter + " = 0; " + counter + " < " + std::to_string(each.trips) + "; ++" + counter +
            ") {\n";
      append(each.body, indent + 1, depth + 1, to);
      to.append(2 * indent, ' ');
      to += "}\n";
      continue;
    }
    for (std::size_t i = 0; i < each.text.size(); ++i) {
      if (each.text[i] != '$')
        to += each.text[i];
      else
        to += text_of(each.values[static_cast<std::size_t>(each.text[++i] - '0')], depth);
    }
    to += "\n";
  }
}

}  // namespace

std::vector<Statement> rolled(std::vector<Statement> statements) {
  while (const std::optional<Repeat> found = best_repeat(statements)) {
    Statement loop = loop_of(statements, *found);
    const auto first = statements.begin() + static_cast<std::ptrdiff_t>(found->first);
    *first = std::move(loop);
    statements.erase(first + 1, first + static_cast<std::ptrdiff_t>(found->trips * found->period));
  }
  for (Statement& each : statements)
    if (each.is_loop()) each.body = rolled(std::move(each.body));
  return statements;
}

std::string lines_of(const std::vector<Statement>& statements, std::size_t indent) {
  std::string result;
  append(statements, indent, 0, result);
  return result;
}

}  // namespace inlay::npu::emit
