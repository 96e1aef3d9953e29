// `inlay serve` before strangers: wrong bodies, broken HTTP, clients that hang, go away, do not read, or come in
// crowds. Whatever they do, they are told so or cut off, and the next one is served.
#include <nlohmann/json.hpp>
#include <random>
#include <thread>
#include <vector>

#include "tests/exec/support/serve_program.hpp"

namespace inlay::test {
namespace {

using Json = nlohmann::json;

class ServeStrangers : public CommandLine {
 protected:
  static void expect_serves(const ServeProgram& server, const std::string& after) {
    const Json body{{"prompt", "Once upon a time"}, {"max_tokens", 4}, {"temperature", 0}};
    const HttpAnswer answer = server.completion(body);
    ASSERT_EQ(answer.status, 200) << after.substr(0, 80);
    EXPECT_EQ(answer.json()["choices"][0]["text"], ", a brow") << after.substr(0, 80);
  }
  // Soon: a client hears of the end of its text while the step goes on, and gauges are of whole steps.
  static void expect_none_is_left(const ServeProgram& server) {
    EXPECT_TRUE(server.comes_to("inlay_texts_running", 0));
    EXPECT_TRUE(server.comes_to("inlay_texts_waiting", 0));
  }
};

// Texts that go on for some seconds: no end of the text, and the reference to write it.
Json endless(int n = 4, bool stream = true) {
  return {{"prompt", "Once"}, {"max_tokens", 500}, {"n", n}, {"stream", stream}, {"logit_bias", {{"2", -100}}}};
}
std::string asks_endless(int n = 4, bool stream = true) { return post("/v1/completions", endless(n, stream).dump()); }

TEST_F(ServeStrangers, wrong_bodies_are_named) {
  const ServeProgram server("--cache-tokens 128 --batch 4 --waiting 4 --template " +
                            write("plain.jinja", "{% for m in messages %}{{ m.content }}{% endfor %}"));
  const std::string many(2000, 'a');
  const struct {
    std::string path, body;
    int status;
    std::string param;
    std::vector<std::string> words;
  } rows[] = {
      {"", "", 400, "", {"JSON"}},
      {"", "[1]", 400, "", {"array", "object"}},
      {"", "{\"prompt\":\"a\"", 400, "", {"byte 14"}},
      {"", "{\"prompt\":\"\xff\"}", 400, "", {"UTF-8"}},
      {"", R"({"prompt":"\ud800"})", 400, "", {"UTF-8"}},
      {"", R"({"prompt":"a","seed":1e999})", 400, "", {"too large"}},
      {"", std::string(100000, '['), 400, "", {"open at once"}},
      {"", R"({"prompt":)" + std::string(100000, '[') + std::string(100000, ']') + "}", 400, "", {"open at once"}},
      {"", "{}", 400, "prompt", {"missing"}},
      {"", R"({"prompt":7})", 400, "prompt", {"7", "a string"}},
      {"", R"({"prompt":[]})", 400, "prompt", {"[]"}},
      {"", R"({"prompt":[[]]})", 400, "prompt", {"0 tokens", "1 to 512"}},
      {"", R"({"prompt":["a",1]})", 400, "prompt", {"strings"}},
      {"", R"({"prompt":[1,1024]})", 400, "prompt", {"1024", "0..1023"}},
      {"", R"({"prompt":[-1]})", 400, "prompt", {"-1", "0..1023"}},
      {"", R"({"prompt":[1.5]})", 400, "prompt", {"1.5"}},
      {"", R"({"prompt":[99999999999999999999]})", 400, "prompt", {"0..1023"}},
      {"", R"({"prompt":")" + many + "\"}", 400, "prompt", {"tokens", "512"}},
      {"", R"({"prompt":["a","a","a","a","a","a","a","a","a"]})", 400, "prompt", {"9 texts", "8"}},
      {"", R"({"prompt":["a","a","a"],"n":3})", 400, "prompt", {"9 texts", "8"}},
      {"", R"({"prompt":"a","n":9})", 400, "n", {"9", "1..8"}},
      {"", R"({"prompt":"a","n":0})", 400, "n", {"0", "1..8"}},
      {"", R"({"prompt":"a","max_tokens":0})", 400, "max_tokens", {"0", "1.."}},
      {"", R"({"prompt":"a","max_tokens":1.5})", 400, "max_tokens", {"1.5"}},
      {"", R"({"prompt":"a","max_tokens":400})", 400, "max_tokens", {"blocks", "8"}},
      {"", R"({"prompt":"a","temperature":-0.1})", 400, "temperature", {"-0.1", "0..2"}},
      {"", R"({"prompt":"a","temperature":"1"})", 400, "temperature", {"\"1\"", "number"}},
      {"", R"({"prompt":"a","top_p":1.1})", 400, "top_p", {"1.1", "0..1"}},
      {"", R"({"prompt":"a","top_k":-2})", 400, "top_k", {"-2"}},
      {"", R"({"prompt":"a","min_p":2})", 400, "min_p", {"2"}},
      {"", R"({"prompt":"a","presence_penalty":3})", 400, "presence_penalty", {"3", "-2..2"}},
      {"", R"({"prompt":"a","repetition_penalty":0})", 400, "repetition_penalty", {"0"}},
      {"", R"({"prompt":"a","seed":9223372036854775808})", 400, "seed", {"9223372036854775808"}},
      {"", R"({"prompt":"a","stop":["a","b","c","d","e"]})", 400, "stop", {"up to 4"}},
      {"", R"({"prompt":"a","stop":""})", 400, "stop", {"1 to 256 bytes"}},
      {"", R"({"prompt":"a","stop":")" + std::string(257, 'a') + "\"}", 400, "stop", {"256"}},
      {"", R"({"prompt":"a","logit_bias":{"1024":1}})", 400, "logit_bias", {"0..1023"}},
      {"", R"({"prompt":"a","logit_bias":{"1":101}})", 400, "logit_bias", {"-100..100"}},
      {"", R"({"prompt":"a","logit_bias":{"x":1}})", 400, "logit_bias", {"token ids"}},
      {"", R"({"prompt":"a","ignore_eos":1})", 400, "ignore_eos", {"1", "true or false"}},
      {"", R"({"prompt":"a","cache_salt":7})", 400, "cache_salt", {"7", "a string"}},
      {"", R"({"prompt":"a","cache_salt":""})", 400, "cache_salt", {"1 to 256 bytes"}},
      {"", R"({"prompt":"a","cache_salt":")" + std::string(257, 'a') + "\"}", 400, "cache_salt", {"256"}},
      {"", R"({"prompt":"a","stream":1})", 400, "stream", {"true or false"}},
      {"", R"({"prompt":"a","stream_options":{"include_usage":true}})", 400, "stream_options", {"stream"}},
      {"", R"({"prompt":"a","stream":true,"stream_options":{"x":1}})", 400, "stream_options.x", {"'x'"}},
      {"", R"({"prompt":"a","echo":true})", 400, "echo", {"true", "false"}},
      {"", R"({"prompt":"a","logprobs":1})", 400, "logprobs", {"left out"}},
      {"", R"({"prompt":"a","best_of":2})", 400, "best_of", {"2"}},
      {"", R"({"prompt":"a","suffix":"b"})", 400, "suffix", {"b"}},
      {"", R"({"prompt":"a","messages":[]})", 400, "messages", {"not known"}},
      {"", R"({"prompt":"a","anything":null})", 400, "anything", {"not known"}},
      {"", R"({"prompt":"a","model":"gpt"})", 404, "model", {"'gpt'", "'stories'"}},
      {"chat/", "{}", 400, "messages", {"list"}},
      {"chat/", R"({"messages":[]})", 400, "messages", {"1 to"}},
      {"chat/", R"({"messages":[{"role":"user"}]})", 400, "messages[0]", {"content"}},
      {"chat/", R"({"messages":[{"role":"a b","content":"c"}]})", 400, "messages[0]", {"role"}},
      {"chat/", R"({"messages":[{"role":"user","content":"c","name":"d"}]})", 400, "messages[0]", {"name"}},
      {"chat/", R"({"messages":[{"role":"user","content":[{"type":"image_url"}]}]})", 400, "messages[0]", {"parts"}},
      {"chat/", R"({"messages":[{"role":"user","content":"c"}],"tools":[1]})", 400, "tools", {"not served"}},
      {"chat/", R"({"messages":[{"role":"user","content":"c"}],"logprobs":true})", 400, "logprobs", {"true"}},
      {"chat/",
       R"({"messages":[{"role":"user","content":"c"}],"response_format":{"type":"json_object"}})",
       400,
       "response_format",
       {"json_object"}},
      {"chat/",
       R"({"messages":[{"role":"user","content":"c"}],"chat_template_kwargs":{"a":1}})",
       400,
       "chat_template_kwargs",
       {"true or false"}},
      {"chat/", R"({"prompt":"a"})", 400, "messages", {"list"}},
  };
  for (const auto& row : rows) {
    const HttpAnswer answer = server.ask(post("/v1/" + row.path + "completions", row.body));
    EXPECT_EQ(answer.status, row.status) << row.body.substr(0, 100) << answer.body;
    const Json object = answer.json();
    ASSERT_TRUE(object.is_object() && object.contains("error")) << answer.body;
    const Json& error = object["error"];
    EXPECT_EQ(error["type"], "invalid_request_error");
    EXPECT_EQ(error["param"], row.param.empty() ? Json() : Json(row.param)) << row.body.substr(0, 100);
    for (const std::string& word : row.words)
      EXPECT_NE(error["message"].get<std::string>().find(word), std::string::npos) << error << word;
  }
  // What is at its limit is taken.
  for (const char* body :
       {R"({"prompt":"a","n":8,"max_tokens":2})", R"({"prompt":[1,1023],"max_tokens":1,"temperature":2,"top_k":-1})",
        R"({"prompt":"a","stop":["a","b","c","d"],"logit_bias":{"0":-100,"1023":100},"echo":false,"best_of":1})",
        R"({"prompt":"a","max_tokens":120,"user":"me","logprobs":null,"seed":-9223372036854775808})"})
    EXPECT_EQ(server.ask(post("/v1/completions", body)).status, 200) << body;
}

TEST_F(ServeStrangers, broken_http_is_answered_or_cut_off) {
  const ServeProgram server("--max-body 1000 --timeout 60");
  const std::string completions = "POST /v1/completions HTTP/1.1\r\nHost: a\r\n";
  const std::string json = completions + "Content-Type: application/json\r\n";
  const std::string body = R"({"prompt":"a","max_tokens":1})";
  const auto sized = [&](const std::string& length) { return json + "Content-Length: " + length + "\r\n\r\n" + body; };
  const std::string filled = R"({"prompt":"a","max_tokens":1)" + std::string(1000 - body.size(), ' ') + "}";
  const struct {
    std::string request;
    int status;  // 0: closed without an answer
  } rows[] = {
      {"\r\n\r\n", 400},
      {"nonsense\r\n\r\n", 400},
      {std::string(100, '\0') + "\r\n\r\n", 400},
      {"GET /health HTTP/9.9\r\n\r\n", 400},
      {std::string(100000, 'x'), 0},
      {"GET /" + std::string(10000, 'x') + " HTTP/1.1\r\n\r\n", 414},
      {"GET /health HTTP/1.1\r\nX: " + std::string(100000, 'x'), 400},
      {get("/nowhere"), 404},
      {get("/v1/completions"), 405},
      {"PUT /v1/completions HTTP/1.1\r\nContent-Length: 1\r\n\r\na", 405},
      {post("/health", "{}"), 405},
      {post("/v1/completions", body, "Range: bytes=0-1\r\n"), 200},
      {post("/v1/completions", body, "Content-Encoding: gzip\r\n"), 415},
      {completions + "Content-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}", 415},
      {completions + "Content-Length: 2\r\n\r\n{}", 415},
      {json + "\r\n" + body, 411},
      {json + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n", 411},
      {sized("-1"), 400},
      {sized("x"), 400},
      {sized("28, 28"), 400},
      {sized("1001"), 413},
      {sized("18446744073709551615"), 413},
      {sized("99999999999999999999999999"), 413},
      {post("/v1/completions", filled + " "), 413},
      {post("/v1/completions", std::string(3000000, ' ')), 413},
      {post("/v1/completions", filled), 200},
      {post("/v1/completions", body, "Expect: 100-continue\r\n"), 100},
      {json + "Connection: close\r\nExpect: 100-continue\r\nContent-Length: 5000\r\n\r\n", 413},
  };
  for (const auto& row : rows) {
    Socket socket(server.port);
    socket.send(row.request);
    const HttpAnswer answer = answer_of(socket);
    // A server that closes while the client still sends may reset what it has answered.
    const bool is_cut = answer.status == 0 && row.request.size() > 50000;
    EXPECT_TRUE(answer.status == row.status || is_cut) << row.request.substr(0, 120) << '\n' << answer.status;
    EXPECT_TRUE(answer.status < 400 || answer.json().contains("error")) << answer.head << answer.body;
  }
  expect_serves(server, "all rows");
  // Bytes of any kind, as a request and as a body; the client says that there is no more.
  std::mt19937 random(1);
  for (int i = 0; i < 100; ++i) {
    std::string bytes;
    for (std::size_t size = random() % 300; bytes.size() < size;) bytes += static_cast<char>(random());
    Socket socket(server.port);
    socket.send(i % 2 == 0 ? bytes + "\r\n\r\n" : post("/v1/completions", bytes));
    EXPECT_EQ(answer_of(socket).status / 100 * (i % 2), 4 * (i % 2)) << i;
  }
  expect_serves(server, "random bytes");
}

TEST_F(ServeStrangers, who_hangs_is_cut_off) {
  const ServeProgram server("--timeout 1");
  const std::string whole = post("/v1/completions", R"({"prompt":"a","max_tokens":1})");
  for (const std::size_t sent : {std::size_t{0}, std::size_t{10}, whole.find("Content-Length"), whole.size() - 3}) {
    Socket socket(server.port);
    ASSERT_TRUE(socket.send(whole.substr(0, sent)));
    const HttpAnswer answer = answer_of(socket);
    EXPECT_TRUE(answer.status == 408 || answer.status == 0) << sent << ' ' << answer.status << answer.head;
  }
  // A byte now and then does not help.
  Socket slow(server.port);
  const auto ends = [&] {
    if (!slow.send("x")) return true;
    return !slow.receive(50) && !slow.timed_out;
  };
  EXPECT_TRUE(ServeProgram::comes_true(ends));
  expect_serves(server, "hangs");
}

TEST_F(ServeStrangers, who_goes_away_takes_the_text_along) {
  const ServeProgram server("--backend reference --batch 4");
  const auto expect_none_runs = [&](int aborted) {
    expect_none_is_left(server);
    EXPECT_TRUE(server.comes_to("inlay_texts_total{finish=\"aborted\"}", aborted));
    EXPECT_EQ(server.metric("inlay_texts_total{finish=\"length\"}"), 0) << "they came to their end";
  };
  {
    Socket streamed(server.port);
    ASSERT_TRUE(streamed.send(asks_endless()));
    ASSERT_TRUE(streamed.receive_until("data: "));
  }
  expect_none_runs(4);
  {
    Socket whole(server.port);
    ASSERT_TRUE(whole.send(asks_endless(4, false)));
    ASSERT_TRUE(server.comes_to("inlay_texts_running", 4));
  }
  expect_none_runs(8);
  {  // one that waits goes, those that run stay
    Socket first(server.port);
    ASSERT_TRUE(first.send(asks_endless()));
    ASSERT_TRUE(first.receive_until("data: "));
    {
      Socket second(server.port);
      ASSERT_TRUE(second.send(asks_endless(2, false)));
      ASSERT_TRUE(server.comes_to("inlay_texts_waiting", 2));
    }
    EXPECT_TRUE(server.comes_to("inlay_texts_waiting", 0));
    EXPECT_TRUE(server.comes_to("inlay_texts_running", 4));
  }
  expect_none_runs(14);
  expect_serves(server, "clients that go");
}

// Seconds of work, so that the second of patience ends before the texts do.
TEST_F(ServeStrangers, who_does_not_read_is_cut_off) {
  const ServeProgram server("--batch 64 --waiting 192 --timeout 1 --max-unread 1000000000");
  Socket socket(server.port, 2048);
  ASSERT_TRUE(socket.send(asks_endless(256)));
  EXPECT_TRUE(server.comes_to("inlay_texts_running", 64));
  expect_none_is_left(server);
  EXPECT_GE(server.metric("inlay_texts_total{finish=\"aborted\"}"), 1);
}

// However long he may take for it.
TEST_F(ServeStrangers, who_leaves_much_unread_is_cut_off) {
  const ServeProgram server("--batch 32 --timeout 600 --max-unread 11000");
  Socket socket(server.port, 2048);
  ASSERT_TRUE(socket.send(asks_endless(32)));  // 50000 bytes
  EXPECT_TRUE(server.comes_to("inlay_texts_total{finish=\"aborted\"}", 32));
}

// Of a text that is a little longer than what may be left unread, written so slowly that its reader keeps up.
TEST_F(ServeStrangers, what_was_taken_is_no_burden) {
  constexpr int limit = 450;
  const ServeProgram server("--backend reference --timeout 600 --max-unread " + std::to_string(limit));
  Json body = endless(1);
  body["max_tokens"] = 160;
  body["temperature"] = 0;
  std::string text;
  for (const Json& event : events_of(server.completion(body))) {
    ASSERT_TRUE(event.contains("choices")) << event;
    text += event["choices"][0]["text"].get<std::string>();
  }
  EXPECT_GT(text.size(), limit);
  EXPECT_LT(text.size(), limit + limit / 4);
}

TEST_F(ServeStrangers, who_comes_too_late_is_told_so) {
  const ServeProgram server("--backend reference --batch 1 --waiting 1 --cache-tokens 512");
  Socket runs(server.port), waits(server.port);
  ASSERT_TRUE(runs.send(asks_endless(1)));
  ASSERT_TRUE(runs.receive_until("data: "));
  ASSERT_TRUE(waits.send(asks_endless(1)));
  ASSERT_TRUE(server.comes_to("inlay_texts_waiting", 1));
  const HttpAnswer late = server.ask(asks_endless(1));
  EXPECT_EQ(late.status, 429) << late.body;
  EXPECT_NE(late.head.find("Retry-After: 1"), std::string::npos) << late.head;
  EXPECT_EQ(late.json()["error"]["type"], "rate_limit_error");
  EXPECT_TRUE(server.comes_to("inlay_requests_total{status=\"429\"}", 1));
  EXPECT_EQ(server.ask(get("/health")).status, 200);
  runs.close(), waits.close();
  ASSERT_TRUE(server.comes_to("inlay_texts_total{finish=\"aborted\"}", 2));
  for (int i = 0; i < 5; ++i) expect_serves(server, "the others have gone");  // one behind the other: none is late
  EXPECT_EQ(server.completion({{"prompt", {"a", "b"}}, {"max_tokens", 1}}).status, 200);
}

// What the cache cannot hold is refused at once, all of it or nothing, while another text runs.
TEST_F(ServeStrangers, a_giant_is_refused_beside_others) {
  const ServeProgram server("--backend reference --batch 4 --cache-tokens 128");
  Socket runs(server.port);
  Json small = endless(1);
  small["max_tokens"] = 100;
  ASSERT_TRUE(runs.send(post("/v1/completions", small.dump())));
  ASSERT_TRUE(runs.receive_until("data: "));
  Json prompts = Json::array({Json::array({1}), Json::array()});
  for (int i = 0; i < 60; ++i) prompts[1].push_back(300 + i);
  const HttpAnswer giant = server.completion({{"prompt", prompts}, {"max_tokens", 100}});
  EXPECT_EQ(giant.status, 400);
  EXPECT_EQ(giant.json()["error"]["param"], "max_tokens") << giant.body;
  ASSERT_TRUE(runs.receive_until("[DONE]"));
  EXPECT_TRUE(server.comes_to("inlay_texts_total{finish=\"length\"}", 1));
  expect_none_is_left(server);
}

// Texts that wait are few and short: a client hears nothing while they are written, which a busy machine does slowly.
TEST_F(ServeStrangers, crowds_are_served_or_told_so) {
  const ServeProgram server("--backend reference --batch 2 --waiting 2");
  const Json body{{"prompt", "Once upon a time"}, {"max_tokens", 12}, {"temperature", 0}};
  const std::string expected = server.completion(body).json()["choices"][0]["text"];
  std::vector<HttpAnswer> answers(200);
  {
    std::vector<std::jthread> clients;
    for (HttpAnswer& each : answers)
      clients.emplace_back([&] {
        Socket socket(server.port);
        socket.send(post("/v1/completions", body.dump()));
        each = answer_of(socket);
      });
  }
  int served = 0, late = 0;
  for (const HttpAnswer& each : answers) {
    ASSERT_TRUE(each.status == 200 || each.status == 429) << each.status << each.body;
    each.status == 200 ? ++served : ++late;
    if (each.status != 200) continue;
    EXPECT_EQ(each.json()["choices"][0]["text"], expected);
  }
  EXPECT_GE(served, 4);
  EXPECT_GE(late, 1);
  EXPECT_TRUE(server.comes_to("inlay_requests_total{status=\"200\"}", 1 + served));
  EXPECT_TRUE(server.comes_to("inlay_requests_total{status=\"429\"}", late));
  expect_none_is_left(server);
}

TEST_F(ServeStrangers, connections_have_a_limit) {
  const ServeProgram server("--connections 3");
  {
    Socket kept[3] = {Socket(server.port), Socket(server.port), Socket(server.port)};
    for (Socket& each : kept) {
      ASSERT_TRUE(each.send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
      ASSERT_TRUE(each.receive_until("ok"));
    }
    Socket fourth(server.port);  // it says nothing: no byte of it can reset the answer
    EXPECT_EQ(answer_of(fourth).status, 429);
    ASSERT_TRUE(kept[1].send("GET /health HTTP/1.1\r\nHost: a\r\n\r\n"));
  }
  EXPECT_TRUE(ServeProgram::comes_true([&] { return server.ask(get("/health")).status == 200; }));
}

}  // namespace
}  // namespace inlay::test
