// Chat templates that are made to take long or much: what each takes is bounded by the steps and bytes that it may
// take, whatever it does with them.
#include <inlay/text/chat.hpp>

#include <gtest/gtest.h>

#include <string>

#include "tests/support/growth.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::Growth;

// A quiet machine needs a twentieth of this; where nothing was spent on what stands in a test's name it was up to
// hours.
const double max_seconds = inlay::test::at_most_seconds(1);
constexpr std::int64_t most_steps = 1 << 20, most_bytes = 1 << 24;
// Twice: a string that is made and the strings of which it is made.
constexpr std::size_t max_memory = 5 * static_cast<std::size_t>(most_bytes) / 2;

// Whether it is rendered or refused: without taking more than that.
void expect_bounded(const std::string& source, std::size_t memory = max_memory) {
  SCOPED_TRACE(source.substr(0, 200));
  const Growth growth;
  const auto chat = ChatTemplate::make(source);
  ASSERT_TRUE(chat) << chat.error().message();
  ChatOptions options{.now = 0};
  options.most_steps = most_steps, options.most_bytes = most_bytes;
  const auto prompt = chat->render({{"user", "aQ"}}, options);
  if (!prompt) {
    EXPECT_TRUE(prompt.error().message().starts_with("chat template, line ")) << prompt.error().message();
  }
  EXPECT_LE(growth.seconds(), max_seconds);
  EXPECT_LE(growth.bytes(), memory);
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) all += text;
  return all;
}

// An expression for a million letters or so, in few steps.
std::string million(char letter) { return "'" + std::string(1000, letter) + "' * 1000"; }
// x and y agree up to their last letter.
const std::string strings = "{% set x = " + million('a') + " ~ 'b' %}{% set y = " + million('a') + " ~ 'c' %}";
std::string often(const std::string& expression) {
  return strings + "{% for i in range(99999) %}{% if " + expression + " %}{% endif %}{% endfor %}";
}

TEST(chat_costs, a_string_that_stands_in_many_places_is_written_no_more_often_than_is_allowed) {
  expect_bounded(strings + "{{ x" + repeated(" ~ x", 5000) + " }}");
  expect_bounded(strings + "{{ [x] * 5000 | join }}");
  expect_bounded(strings + "{{ ([x] * 5000) | join }}");
  expect_bounded(strings + "{{ ''.join([x] * 5000) }}");
  expect_bounded(strings + "{{ ([{'a': x}] * 5000) | join(attribute='a') }}");
  expect_bounded(strings + "{{ ([x] * 5000) | tojson }}");
  expect_bounded(strings + "{{ [x] * 5000 }}");
}

TEST(chat_costs, a_key_of_a_dict_is_a_string_that_takes_its_bytes) {
  expect_bounded(strings + "{% set l = [" + repeated("{x: 1}, ", 5000) + "] %}");
}

TEST(chat_costs, escapes_take_the_bytes_that_they_write) {
  expect_bounded("{{ ('" + repeated("\\x01", 1000) + "' * 8000) | tojson }}");
  expect_bounded("{{ ['" + repeated("\\x01", 1000) + "' * 8000] }}");
}

TEST(chat_costs, characters_of_a_string_take_no_list_of_their_places) {
  for (const char* of : {"x[-1]", "x[7]", "x[1:]", "x[::-1]", "x[::3]", "x.strip('b')", "x.rstrip('ab')"})
    expect_bounded(strings + "{% set z = " + of + " %}", 10 << 20);
}

TEST(chat_costs, a_date_takes_what_it_writes) {
  expect_bounded("{{ strftime_now('%Y' ~ " + million(' ') + ") | length }}", 8 << 20);
}

TEST(chat_costs, one_string_is_looked_for_in_another_in_time_of_their_lengths) {
  const std::string half = strings + "{% set h = x[500000:] ~ 'a' %}";
  for (const char* of : {"h in x", "x.find(h)", "x.count(h)", "x.split(h)", "x.replace(h, '')", "x | replace(h, '')"})
    expect_bounded(half + "{% if " + of + " %}{% endif %}");
  expect_bounded(strings + "{% set t = " + million('b') + " ~ 'a' %}{{ x.strip(t) }}{{ x.rstrip(t) }}");
}

TEST(chat_costs, strings_that_are_compared_take_steps_by_their_lengths) {
  for (const char* of : {"x < y", "x is lt(y)", "x == y", "x in [y]", "x.startswith(y)", "x.endswith('b' ~ y)",
                         "x.startswith((y, y, y, y))", "y in {x: 1}", "{x: 1}.get(y)", "{x: 1}[y]", "{x: 1} == {y: 1}"})
    expect_bounded(often(of));
  expect_bounded(strings + "{% set l = [y] * 99999 %}{% if x.startswith((y,) * 99999) %}{% endif %}");
  expect_bounded(strings + "{% set d = {x: 1} %}{% for i in range(99999) %}{% if d[y] %}{% endif %}{% endfor %}");
}

TEST(chat_costs, a_string_that_is_read_takes_steps_by_its_length) {
  const std::string blanks = "{% set b = " + million(' ') + " %}";
  for (const char* of : {"b | int", "x | int", "x | length", "1[x]", "x[y]", "x is string"})
    expect_bounded(blanks + often(of));
}

TEST(chat_costs, a_function_is_found_among_functions_alone) {
  std::string macros;
  for (int i = 0; i < 5000; ++i) macros += "{% macro m" + std::to_string(i) + "() %}{% endmacro %}";
  expect_bounded(macros + "{% for i in range(99999) %}{% if " + repeated("range and ", 7) +
                 "range %}{% endif %}{% endfor %}");
}

TEST(chat_costs, names_of_arguments_take_steps_by_their_number) {
  std::string names, parameters;
  for (int i = 0; i < 20000; ++i) {
    const std::string name = "a" + std::to_string(i);
    names += (i > 0 ? "," : "") + name + "=1";
    if (i < 9000) parameters += (i > 0 ? "," : "") + name;
  }
  const auto loop = [](const std::string& call) {
    return "{% for i in range(999) %}{% set z = " + call + " %}{% endfor %}";
  };
  expect_bounded(loop("dict(" + names + ")"));
  expect_bounded(loop("namespace(" + names + ")"));
  std::string given;
  for (int i = 9000; i-- > 0;) given += "a" + std::to_string(i) + "=1" + (i > 0 ? "," : "");
  expect_bounded("{% macro m(" + parameters + ") %}{% endmacro %}" + loop("m(" + given + ")"));
}

// Each of them is compared in each scope.
TEST(chat_costs, a_name_has_a_longest_form) {
  EXPECT_TRUE(ChatTemplate::make("{{ " + std::string(200, 'n') + " }}"));
  const auto longer = ChatTemplate::make("{{ " + std::string(201, 'n') + " }}");
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().code(), StatusCode::unsupported);
  EXPECT_EQ(longer.error().message(),
            "chat template, line 1, column 4: a name of more than 200 letters is not supported");
}

}  // namespace
}  // namespace inlay::exec::test
