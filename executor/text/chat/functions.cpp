// The functions of templates: what transformers gives them beside Jinja's own.
#include <ctime>

#include <inlay/core/quote.hpp>

#include "executor/text/chat/evaluation.hpp"

namespace inlay::exec::chat {
namespace {

using Kind = Value::Kind;

Value raise_exception(const Call& call) {
  return call.run.fail(call.at,
                       "the template refuses the messages: " + quote(call.run.str(call.at, call.values[0]).bytes),
                       StatusCode::invalid_argument);
}

Value strftime_now(const Call& call) {
  if (!call.values[0].is(Kind::string)) return call.fail("with a format that is " + std::string(call.values[0].type()));
  const Text& format = call.values[0].text();
  if (!call.run.spend(call.at, format.size() / 16)) return {};
  const std::time_t now = call.run.now();
  std::tm parts{};
  if (::localtime_r(&now, &parts) == nullptr) return call.fail("of a time that no calendar has");
  Text text;
  for (std::size_t i = 0; i < format.size() && call.run.may_be_made(call.at, text); ++i) {
    if (format.bytes[i] != '%') {
      text.append(format, i, 1);
      continue;
    }
    if (++i == format.size() || std::string_view("aAbBdHIjmMpSyY%").find(format.bytes[i]) == std::string_view::npos)
      return call.run.refuse(call.at, "the format " + quote(format.bytes) + " of a date");
    const char part[] = {'%', format.bytes[i], '\0'};
    char written[64];
    text.append({written, std::strftime(written, sizeof(written), part, &parts)}, format.is_typed(i));
  }
  return call.run.make(call.at, std::move(text));
}

Value range(const Call& call) {
  std::int64_t ends[] = {0, 0, 1};
  for (std::size_t i = 0; i < most_parameters; ++i)
    if (call.given[i]) {
      if (!call.values[i].is_number()) return call.fail("of " + std::string(call.values[i].type()));
      ends[i] = call.values[i].integer();
    }
  if (!call.given[1]) ends[1] = std::exchange(ends[0], 0);
  const std::int64_t step = ends[2];
  if (step == 0) return call.fail("with a step of 0");
  constexpr std::int64_t longest = 100000;  // as Jinja's sandbox has it
  for (const std::int64_t end : {ends[0], ends[1], step})
    if (end > INT32_MAX || end < -INT32_MAX) return call.run.refuse(call.at, "so large a number");
  List numbers{.form = List::Form::range};
  const std::int64_t count = step > 0 ? (ends[1] - ends[0] + step - 1) / step : (ends[0] - ends[1] - step - 1) / -step;
  if (count > longest) return call.fail("of " + std::to_string(count) + " numbers; there may be at most 100000");
  for (std::int64_t i = 0; i < count; ++i) numbers.items.push_back(Value::of(ends[0] + i * step));
  return call.run.make(call.at, std::move(numbers));
}

constexpr Builtin functions[] = {
    {"dict", {}, 0, nullptr},
    {"namespace", {}, 0, nullptr},
    {"raise_exception", {"message"}, 1, raise_exception, false},
    {"range", {"start", "stop", "step"}, 1, range, false},
    {"strftime_now", {"format"}, 1, strftime_now, false},
};

}  // namespace

const Builtin* find_function(std::string_view name) {
  for (const Builtin& function : functions)
    if (function.name == name) return &function;
  return nullptr;
}

}  // namespace inlay::exec::chat
