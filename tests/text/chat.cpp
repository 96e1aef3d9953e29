// Chat templates against what transformers makes of them (chat/make.py wrote chat/vectors.json), and against templates
// that mean ill.
#include <inlay/text/chat.hpp>

#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "executor/text/chat/evaluation.hpp"
#include "executor/text/chat/lexer.hpp"
#include "tests/support/source_dir.hpp"

namespace inlay::exec::chat {
namespace {

using Json = nlohmann::ordered_json;

const Json& vectors() {
  static const Json all = Json::parse(std::ifstream(test::source_path("tests/text/chat/vectors.json")));
  return all;
}

// Strings within messages are typed, but for roles.
Value value_of(const Json& json, bool typed) {
  if (json.is_null()) return Value::none();
  if (json.is_boolean()) return Value::of(json.get<bool>());
  if (json.is_number()) return Value::of(json.get<std::int64_t>());
  if (json.is_string())
    return Value::of(typed ? Text::of_message(json.get<std::string>()) : Text{json.get<std::string>()});
  if (json.is_array()) {
    List list;
    for (const Json& each : json) list.items.push_back(value_of(each, typed));
    return Value::of(std::move(list));
  }
  Dict dict;
  for (const auto& [key, value] : json.items()) dict.set({key}, value_of(value, typed && key != "role"));
  return Value::of(std::move(dict));
}

// transformers gives reasoning its other name too.
Json with_reasoning(Json chat) {
  for (Json& message : chat)
    if (message.contains("reasoning_content")) message["thinking"] = message["reasoning_content"];
  return chat;
}

Evaluation::Variables variables(const Json& chat, const Json& more) {
  Json all = vectors()["plain"];
  all.update(more);
  Evaluation::Variables made{{"messages", value_of(with_reasoning(chat), true)}};
  for (const auto& [name, value] : all.items()) made.emplace_back(name, value_of(value, false));
  return made;
}

Expected<Text> render(std::string_view source, const Evaluation::Variables& given) {
  const auto program = parse(source);
  if (!program) return failure(program.error().code(), program.error().message());
  auto text =
      Evaluation(*program, {ChatOptions().most_steps, ChatOptions().most_bytes}, vectors()["now"].get<std::time_t>())
          .run(given);
  EXPECT_TRUE(!text || text->typed.empty() || text->typed.size() == text->bytes.size()) << source;
  return text;
}
Expected<Text> render(std::string_view source) {
  return render(source, variables(vectors()["chats"][4], vectors()["data"]));
}

void expect_as_transformers(const Expected<Text>& ours, const Json& theirs) {
  if (!theirs.contains("text"))
    EXPECT_FALSE(ours) << theirs["error"] << " there; here\n" << ours->bytes;
  else if (!ours)
    ADD_FAILURE() << ours.error().message() << "; there\n" << theirs["text"];
  else
    EXPECT_EQ(ours->bytes, theirs["text"].get<std::string>());
}

TEST(chat, templates_of_families_give_what_transformers_gives) {
  ::setenv("TZ", "UTC", 1), ::tzset();
  ASSERT_GE(vectors()["families"].size(), 20u);
  for (const Json& family : vectors()["families"])
    for (const Json& each : family["cases"]) {
      SCOPED_TRACE(family["name"].get<std::string>() + ", chat " + each["chat"].dump() + ", flags " +
                   each["flags"].dump());
      const Json& chat = vectors()["chats"][each["chat"].get<std::size_t>()];
      const Json& flags = vectors()["flags"][each["flags"].get<std::size_t>()];
      expect_as_transformers(render(family["template"].get<std::string>(), variables(chat, flags)), each);
    }
}

TEST(chat, every_construct_gives_what_jinja_gives) {
  ::setenv("TZ", "UTC", 1), ::tzset();
  for (const Json& each : vectors()["constructs"]) {
    SCOPED_TRACE(each["template"]);
    expect_as_transformers(render(each["template"].get<std::string>()), each);
  }
}

TEST(chat, what_is_not_supported_is_named) {
  for (const Json& each : vectors()["refused"]) {
    SCOPED_TRACE(each["template"]);
    const auto text = render(each["template"].get<std::string>());
    ASSERT_FALSE(text) << text->bytes;
    EXPECT_EQ(text.error().code(), StatusCode::unsupported);
    EXPECT_NE(text.error().message().find(each["refused"].get<std::string>()), std::string::npos)
        << text.error().message();
    EXPECT_TRUE(text.error().message().starts_with("chat template")) << text.error().message();
  }
}

// No template here has the letter Q, and each message consists of it and blanks.
TEST(chat, what_comes_from_messages_is_marked_through_every_template) {
  std::size_t marked = 0;
  for (const Json& family : vectors()["families"]) {
    std::string source = family["template"].get<std::string>();
    for (char& c : source)
      if (c == 'Q') c = 'K';
    for (const Json& chat : vectors()["chats"]) {
      Json messages = chat;
      for (Json& message : messages)
        if (message["content"].is_string()) message["content"] = " Q<|im_end|>Q\nQ</think>\"Q ";
      for (const Json& flags : vectors()["flags"]) {
        const auto text = render(source, variables(messages, flags));
        if (!text) continue;
        for (std::size_t i = 0; i < text->size(); ++i) {
          if (text->bytes[i] != 'Q') continue;
          ++marked;
          ASSERT_TRUE(text->is_typed(i)) << family["name"] << '\n' << text->bytes;
        }
        // And nothing else is: of the template's own marks none.
        for (const std::string own : {"<|im_start|>", "<|start_header_id|>", "[INST]", "<start_of_turn>", "<s>"})
          for (std::size_t at = 0; (at = text->bytes.find(own, at)) != std::string::npos; ++at)
            for (std::size_t i = at; i < at + own.size(); ++i) ASSERT_FALSE(text->is_typed(i)) << text->bytes;
      }
    }
  }
  EXPECT_GT(marked, 5000u);
}

TEST(chat, marks_go_with_the_letters_through_filters_and_methods) {
  // What is typed comes out in brackets.
  const auto marks = [&](std::string_view source) {
    const auto text = render(source, {{"m", Value::of(Text::of_message(" ab\"a\xc3\xa9 "))}});
    if (!text) return "refused: " + std::string(text.error().message());
    std::string out;
    for (std::size_t i = 0; i < text->size(); ++i) {
      const bool before = i > 0 && text->is_typed(i - 1);
      if (text->is_typed(i) != before) out += before ? ']' : '[';
      out += text->bytes[i];
    }
    return out + (text->size() > 0 && text->is_typed(text->size() - 1) ? "]" : "");
  };
  EXPECT_EQ(marks("<{{ m }}>"), "<[ ab\"a\xc3\xa9 ]>");
  EXPECT_EQ(marks("<{{ m | trim }}>"), "<[ab\"a\xc3\xa9]>");
  EXPECT_EQ(marks("<{{ m.strip() + 'x' }}>"), "<[ab\"a\xc3\xa9]x>");
  EXPECT_EQ(marks("{{ 'x' ~ m[1:3] ~ m[-2] }}"), "x[ab\xc3\xa9]");
  EXPECT_EQ(marks("{{ m[1:3] | upper }}{{ m[1:3].title() }}{{ m[1:3] | capitalize }}{{ m[1:3] | title }}"),
            "[ABAbAbAb]");
  EXPECT_EQ(marks("{{ m | replace('a', '<x>') }}"), "[ ]<x>[b\"]<x>[\xc3\xa9 ]");
  EXPECT_EQ(marks("{{ '1a2'.replace('a', m[1]) }}"), "1[a]2");
  EXPECT_EQ(marks("{{ m.split('\"') | join('|') }}"), "[ ab]|[a\xc3\xa9 ]");
  EXPECT_EQ(marks("{{ m | tojson }}"), "\"[ ab\\\"a\xc3\xa9 ]\"");
  EXPECT_EQ(marks("{{ {'k': [m[1]]} | tojson(ensure_ascii=true, indent=1) }}"), "{\n \"k\": [\n  \"[a]\"\n ]\n}");
  EXPECT_EQ(marks("{{ m[5] | tojson(ensure_ascii=true) }}"), "\"[\\u00e9]\"");
  EXPECT_EQ(marks("{{ [m[1:4]] }}"), "['[ab\"]']");
  EXPECT_EQ(marks("{{ 'x'.join([m[1], 'y', m[2]]) }}"), "[a]xyx[b]");
  EXPECT_EQ(marks("{{ (m | list)[1] }}{{ m | first }}{{ m | last }}"), "[a  ]");
  EXPECT_EQ(marks("{{ m[1:3] | reverse }}{{ m[1:3][::-1] }}{{ m[1:3] * 2 }}"), "[babaabab]");
  EXPECT_EQ(marks("{% for c in m %}{{ c }}.{% endfor %}"), "[ ].[a].[b].[\"].[a].[\xc3\xa9].[ ].");
  EXPECT_EQ(marks("{% macro q(x) %}({{ x }}){% endmacro %}{{ q(m[1]) | trim }}"), "([a])");
  EXPECT_EQ(marks("{% set x %}-{{ m[1] }}-{% endset %}{{ x }}{% generation %}{{ m[1] }}{% endgeneration %}"),
            "-[a]-[a]");
  EXPECT_EQ(marks("{% set ns = namespace(x=m[1]) %}{{ ns.x }}{{ dict(a=m[2]).a }}{{ {'a': m[1]}.get('a') }}"), "[aba]");
  EXPECT_EQ(marks("{{ (m if true else '') | default('x') | string }}{{ [m] | map('trim') | first }}"),
            "[ ab\"a\xc3\xa9 ab\"a\xc3\xa9]");
  EXPECT_EQ(marks("{{ strftime_now('<' ~ m[1] ~ '%%>') }}"), "<[a]%>");
  EXPECT_EQ(marks("{{ {m[1]: 1} | tojson }}{% for k in {m[1]: 1} %}{{ k }}{% endfor %}"), "{\"[a]\": 1}[a]");
}

// Each ends with a Status that says what is too much, before it takes long or takes much.
TEST(chat, templates_that_never_end_are_stopped) {
  const auto times = [](int count, const std::string& text) {
    std::string all;
    for (int i = 0; i < count; ++i) all += text;
    return all;
  };
  for (const std::string& source : {
           std::string("{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}"),
           std::string(
               "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
           std::string(
               "{% set ns = namespace(s='ab') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}"),
           std::string(
               "{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
           std::string("{% set ns = namespace(s=1) %}{% for i in range(99999) %}{% set ns.s = [ns.s] %}{% endfor %}"),
           std::string("{% set ns = namespace(s=1) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
                       "%}{{ ns.s }}"),
           std::string("{% set ns = namespace(s=1) %}{% for i in range(50) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
                       "%}{{ ns.s | tojson }}"),
           std::string("{% set ns = namespace(s=1) %}{% for i in range(50) %}{% set ns.s = [ns.s, ns.s] %}{% endfor "
                       "%}{{ ns.s == ns.s[:] }}"),
           std::string("{{ 'a' * 999999999999 }}"),
           std::string("{{ [1] * 999999999999 }}"),
           std::string("{{ ('a' * 99999).replace('a', 'b' * 99999) }}"),
           std::string("{{ range(99999) | join('b' * 99999) }}"),
           std::string("{% for i in range(99999) %}{{ 'b' * 99999 }}{% endfor %}"),
           std::string("{{ [[[[[[1]]]]]] | tojson(indent=16) }}{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}"),
           "{{ " + times(1000, "(") + "1" + times(1000, ")") + " }}",
           "{{ " + times(1000, "-") + "1 }}",
           "{{ 1" + times(1000, " + 1") + " }}",
           "{{ " + times(1000, "not ") + "1 }}",
           "{{ a" + times(1000, ".b") + " }}",
           "{{ a" + times(1000, "[0]") + " }}",
           "{{ a" + times(1000, "|trim") + " }}",
           "{{ a" + times(1000, " if b else a") + " }}",
           times(1000, "{% if true %}"),
           times(1000, "{% for a in b %}"),
           "{{ " + times(1000, "[") + " }}",
           std::string(longest_template + 1, 'a'),
       }) {
    const auto text = render(source);
    ASSERT_FALSE(text) << source.substr(0, 99);
    EXPECT_LT(text.error().message().size(), 300u) << text.error().message();
  }
  // 60 levels are not too deep, and a long chat is not too much.
  EXPECT_TRUE(
      render("{% set ns = namespace(s=1) %}{% for i in range(50) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s }}"));
  Json chat = Json::array();
  for (int i = 0; i < 1000; ++i)
    chat.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", std::string(1000, 'x')}});
  for (const Json& family : vectors()["families"]) {
    const auto text = render(family["template"].get<std::string>(), variables(chat, Json::object()));
    EXPECT_TRUE(text) << family["name"] << text.error().message();
  }
}

TEST(chat, messages_are_rendered_by_the_face) {
  const std::string source =
      "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>"
      "{% endif %}{{ bos_token }}{{ unk_token is defined }}{{ tools is none }}{{ thinking }}{{ strftime_now('%Y') }}";
  const auto chat = ChatTemplate::make(source);
  ASSERT_TRUE(chat) << chat.error().message();
  const ChatOptions options{.bos = "<s>", .switches = {{"thinking", true}}, .now = std::time_t{1}};
  const auto prompt = chat->render({{"user", "a<s>"}, {"assistant", "b</t>", std::string("\0\1\1\1\1", 5)}}, options);
  ASSERT_TRUE(prompt) << prompt.error().message();
  EXPECT_EQ(prompt->text, "<user>a<s><assistant>b</t><assistant><s>FalseTrueTrue1970");
  EXPECT_EQ(prompt->typed, std::string(6, '\0') + std::string(4, '\1') + std::string(11, '\0') + "\1" +
                               std::string(prompt->text.size() - 22, '\0'));
  EXPECT_TRUE(chat->writes("<assistant>"));
  EXPECT_FALSE(chat->writes("<user>"));
  EXPECT_FALSE(chat->render({}, {.add_generation_prompt = false})->text.starts_with("<"));
  for (const auto& [message, word] :
       {std::pair{ChatMessage{"a|>b", "c"}, "the role of message 0 is 'a|>b'; it must be"},
        std::pair{ChatMessage{"", "c"}, "the role of message 0"},
        std::pair{ChatMessage{"a", "c", "12"}, "own_tokens of message 0 has 2 bytes; it must have 1"}}) {
    const auto refused = chat->render({message}, {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.error().message().find(word), std::string::npos) << refused.error().message();
  }
  const auto broken = ChatTemplate::make("a\n{% if %}");
  ASSERT_FALSE(broken);
  EXPECT_EQ(broken.error().message(), "chat template, line 2, column 7: unexpected '%}'");
  const auto raised = ChatTemplate::make("{{ raise_exception('roles ' ~ messages[0].content) }}");
  EXPECT_EQ(raised->render({{"user", "x\n"}}, {}).error().message(),
            "chat template, line 1, column 4: the template refuses the messages: 'roles x\\x0a'");
}

}  // namespace
}  // namespace inlay::exec::chat
