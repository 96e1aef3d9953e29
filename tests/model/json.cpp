// Documents of JSON: what nlohmann's own say, in less memory.
#include "executor/model/json/file.hpp"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "tests/model/support/same_json.hpp"
#include "tests/support/files.hpp"

namespace inlay::exec::test {
namespace {

JsonDocument parsed(std::string_view text) {
  auto document = parse_json(text, "t");
  EXPECT_TRUE(document) << document.error().message();
  return document ? std::move(*document) : JsonDocument({{}}, std::make_shared<std::string>());
}

std::string refusal(std::string_view text) {
  const auto document = parse_json(text, "t");
  return document ? "" : std::string(document.error().message());
}

// Any JSON there is, spelled in any way, and a little of what there is not.
class RandomText {
 public:
  explicit RandomText(unsigned seed) : random_(seed) {}

  std::string object() {
    text_.clear();
    members(0);
    if (one_in(30)) text_.insert(0, "\xef\xbb\xbf");
    if (one_in(40)) text_ += std::string_view("\0,[[", 4);
    if (one_in(3)) damage();
    return std::move(text_);
  }

 private:
  bool one_in(unsigned n) { return random_() % n == 0; }
  template <std::size_t N> void any_of(const std::string_view (&list)[N]) { text_ += list[random_() % N]; }

  void space() {
    static constexpr std::string_view spaces[] = {"", "", "", "", " ", "\n", "\t \r\n"};
    any_of(spaces);
  }

  void string() {
    static constexpr std::string_view pieces[] = {
        "a",       "bc",   "\xc3\xa9", "\xe2\x96\x81", "\xf0\x9f\x98\x80", "\\u0041", "\\u0000", "\\ud83d\\ude00",
        "\\u20AC", "\\\"", "\\\\",     "\\/",          "\\b\\f\\n\\r\\t",  "[{",      "}],:",    "0"};
    static constexpr std::string_view bad[] = {"\\ud83d", "\xff", "\x01", "\\x", "\\ude00", "\xc3"};
    text_ += '"';
    for (auto n = random_() % 4; n > 0; --n) any_of(pieces);
    if (one_in(300)) any_of(bad);
    text_ += '"';
  }

  void scalar() {
    static constexpr std::string_view words[] = {"null",
                                                 "true",
                                                 "false",
                                                 "0",
                                                 "-0",
                                                 "7",
                                                 "-1",
                                                 "0.0",
                                                 "-0.5",
                                                 "1e3",
                                                 "1E+2",
                                                 "25e-1",
                                                 "9007199254740993",
                                                 "9223372036854775807",
                                                 "9223372036854775808",
                                                 "18446744073709551615",
                                                 "18446744073709551616",
                                                 "-9223372036854775808",
                                                 "-9223372036854775809",
                                                 "123456789012345678901234567890",
                                                 "5e-324",
                                                 "1.7976931348623157e308",
                                                 "0.1",
                                                 "3.0"};
    static constexpr std::string_view bad[] = {"1e400", "01", "1.", ".5", "+1", "nul", "truefalse", "nan", "-"};
    one_in(300) ? any_of(bad) : any_of(words);
  }

  void value(int depth) {
    space();
    const auto kind = random_() % (depth < 6 ? 5 : 2);
    if (kind == 0) scalar();
    if (kind == 1) string();
    if (kind == 2) scalar();
    if (kind == 3) members(depth + 1);
    if (kind == 4) elements(depth + 1);
    space();
  }

  // Few keys for many members: some come twice.
  void members(int depth) {
    static constexpr std::string_view keys[] = {"a",    "b",        "c",     "aa", "",  "\\u0061",
                                                "type", "\xc3\xa9", "x\\ny", "bb", "k", "l"};
    text_ += '{';
    space();
    for (auto n = one_in(8) ? random_() % 40 : random_() % 4; n > 0; --n) {
      text_ += '"', any_of(keys), text_ += '"';
      space(), text_ += ':';
      value(one_in(3) ? depth : 9);
      if (n > 1) text_ += ',', space();
    }
    text_ += '}';
  }

  void elements(int depth) {
    text_ += '[';
    space();
    for (auto n = random_() % 4; n > 0; --n) {
      value(depth);
      if (n > 1) text_ += ',';
    }
    text_ += ']';
  }

  void damage() {
    static constexpr std::string_view signs = "[]{},:\"0-. \\tn";
    const std::size_t at = random_() % text_.size();
    const char sign = signs[random_() % signs.size()];
    switch (random_() % 4) {
      case 0: text_[at] = sign; break;
      case 1: text_.insert(at, 1, sign); break;
      case 2: text_.erase(at, 1); break;
      default: text_.resize(at);
    }
  }

  std::mt19937 random_;
  std::string text_;
};

TEST(json, says_what_nlohmann_says) {
  int taken = 0, refused = 0;
  RandomText texts(1);
  for (int i = 0; i < 60000; ++i) {
    const std::string text = texts.object();
    const auto theirs = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    const auto ours = parse_json(text, "t");
    ASSERT_EQ(ours.has_value(), theirs.is_object()) << text;
    ++(ours ? taken : refused);
    if (!ours) continue;
    ASSERT_TRUE(same_json(ours->root(), theirs)) << text;
    if (const std::string again = written(ours->root()); again.size() < 200) {
      ASSERT_EQ(nlohmann::json::parse(again, nullptr, false), theirs) << text;
    }
  }
  EXPECT_GT(taken, 30000);
  EXPECT_GT(refused, 5000);
}

// Python's json writes what JSON has no word for; a reader of numbers refuses it, others pass it over.
TEST(json, words_of_python_are_texts) {
  const JsonDocument document =
      parsed(R"( {"limit": [0.0, Infinity,-Infinity ],"scale":NaN, "text": "Infinity, NaN", "last": 2})");
  EXPECT_EQ(written(document.root()),
            R"({"limit":[0.0,"Infinity","-Infinity"],"scale":"NaN","text":"Infinity, NaN","last":2})");
  JsonFields fields(document.root(), "t");
  double scale = 7;
  EXPECT_FALSE(fields.number("scale", scale));
  EXPECT_EQ(scale, 7);
  const Status status = fields.take_status();
  EXPECT_NE(status.message().find("'scale' is no number"), std::string_view::npos) << status.message();
  for (const char* text : {R"({"a": Infinit})", R"({"a": InfinityInfinity})", R"({"a": --Infinity})", R"({"a": NaN5})",
                           R"({"a": 5NaN})", R"({NaN: 1})", R"({"a" NaN})", R"({"a": +Infinity})", "NaN"})
    EXPECT_NE(refusal(text), "") << text;
}

TEST(json, of_members_with_one_key_the_last_counts) {
  for (const int others : {0, 5, 500}) {  // few are compared with each other, many go through a table
    std::string text = R"({"a": 1, "b": {"a": 2}, "a": [3, 4], )";
    for (int i = others; i > 0; --i) text += "\"" + std::to_string(i) + "\": [" + std::to_string(i) + "], ";
    const JsonDocument document = parsed(text + R"("\u0061": 5, "c": 6})");
    const Json json = document.root();
    EXPECT_EQ(json.size(), static_cast<std::size_t>(others) + 3);
    EXPECT_EQ(json.find("a").natural(), 5u);
    EXPECT_EQ(json.find("b").find("a").natural(), 2u);
    std::vector<std::string> keys, expected = {"b"};
    for (const auto& [key, value] : json.members()) keys.emplace_back(key);
    for (int i = 0; i < others; ++i) expected.push_back(std::to_string(others - i));
    expected.insert(expected.end(), {"a", "c"});
    EXPECT_EQ(keys, expected);  // in the order of the file
  }
}

TEST(json, what_is_not_there_is_null) {
  const JsonDocument document = parsed(R"({"a": null, "b": "x", "c": [1, "y"]})");
  const Json json = document.root();
  EXPECT_TRUE(json.contains("a") && !json.find("a"));
  EXPECT_TRUE(!json.contains("d") && !json.find("d"));
  EXPECT_FALSE(json.find("b").find("c").find("d"));
  EXPECT_FALSE(json[0]);
  EXPECT_TRUE(json.find("c")[1] == "y" && !json.find("c")[2]);
  EXPECT_EQ(json.find("b").size(), 0u);
  EXPECT_EQ(json.find("c").text(), "");
  for (const Json none : json.find("b").elements()) ADD_FAILURE() << shown(none);
  for (const auto& [key, none] : json.find("c").members()) ADD_FAILURE() << key;
  int steps = 0;
  for (const Json step : json.find("c").alone()) steps += step.size() == 2;
  EXPECT_EQ(steps, 1);
}

TEST(json, a_message_shows_the_beginning) {
  const JsonDocument document =
      parsed(R"({"a": [null, true, -1, 18446744073709551615, 0.5, 3.0, 1e300, "\"\u0001\n\u00e9"],)"
             R"("b": {}, "c": "x\"y"})");
  const Json json = document.root();
  EXPECT_EQ(written(json),
            "{\"a\":[null,true,-1,18446744073709551615,0.5,3.0,1e+300,\"\\\"\\u0001\\n\xc3\xa9\"],\"b\":{},\"c\":"
            "\"x\\\"y\"}");
  EXPECT_EQ(written(json), nlohmann::json::parse(written(json)).dump());
  EXPECT_EQ(shown(json.find("c")), "x\"y");
  std::string many = "{\"a\":[";
  for (int i = 0; i < 100000; ++i) many += "[[0]],";
  const JsonDocument large = parsed(many + "\"" + std::string(100000, 'x') + "\"]}");
  EXPECT_LT(written(large.root()).size(), 300u);
  EXPECT_GT(written(large.root()).size(), 100u);  // quote() says that it goes on
  const JsonDocument text = parsed("{\"a\":\"" + std::string(100000, 'x') + "\"}");
  EXPECT_LT(shown(text.root().find("a")).size(), 300u);
  EXPECT_LT(written(text.root()).size(), 500u);
}

TEST(json, refuses_what_would_cost_too_much) {
  std::string deep = "0";
  for (int i = 1; i < deepest_json; ++i) deep = "[" + deep + "]";
  EXPECT_EQ(refusal("{\"a\":" + deep + "}"), "");
  EXPECT_EQ(refusal("{\"a\":[" + deep + "]}"), "t: nested deeper than the 100 levels that JSON may have");
  EXPECT_EQ(refusal("{\"a\":" + std::string(1000, '1') + "e-999}"),
            "t: a number of 1005 letters; it must have at most 1000");
  EXPECT_EQ(refusal("{\"a\":0." + std::string(998, '1') + "}"), "");
  EXPECT_EQ(refusal("{\"a\":0." + std::string(999, '1') + "}"),
            "t: a number of 1001 letters; it must have at most 1000");
  const TemporaryDirectory d;
  write_text(d / "long.json", "{}");
  std::filesystem::resize_file(d / "long.json", std::uintmax_t{1} << 32);  // of zeros that take no room
  const auto document = read_json(d / "long.json");
  ASSERT_FALSE(document);
  EXPECT_NE(document.error().message().find("4294967296 bytes of JSON"), std::string_view::npos)
      << document.error().message();
}

}  // namespace
}  // namespace inlay::exec::test
