// `inlay serve`: the texts that `inlay run` writes, over OpenAI's protocol.
#include <nlohmann/json.hpp>
#include <thread>
#include <vector>

#include "tests/exec/support/serve_program.hpp"
#include "tests/support/requirements.hpp"

namespace inlay::test {
namespace {

using Json = nlohmann::json;

class Serve : public CommandLine {
 protected:
  // Messages as they are, one behind the other.
  std::string plain() const {
    return " --template " + write("plain.jinja",
                                  "{{ bos_token }}{% if loud %}Oh! {% endif %}{% for m in messages %}{{ m.content }}"
                                  "{% endfor %}");
  }
  // What `inlay run` writes behind a prompt.
  std::string alone(const std::string& prompt, const std::string& options) const {
    const Outcome outcome = inlay("run --prompt '" + prompt + "' " + options);
    EXPECT_EQ(outcome.code, 0) << outcome.err;
    return outcome.out.substr(std::min(prompt.size(), outcome.out.size()));
  }
};

std::string text_of(const HttpAnswer& answer, std::size_t choice = 0) {
  EXPECT_EQ(answer.status, 200) << answer.head << answer.body;
  const Json object = answer.json();
  if (!object.is_object() || object["choices"].size() <= choice) return "(none)";
  const Json& it = object["choices"][choice];
  return it.contains("message") ? it["message"]["content"] : it["text"];
}

const std::string prompts[] = {
    "Once upon a time", "Lily went to the \"park\"", "Tom", "One day, a big dog", "The sun", "A red bird", "Mia",
    "Every morning"};

// What computes changes nothing of what is served: ranks have the bits of one, two devices those of their placement.
TEST_F(Serve, ranks_and_two_devices_serve_the_text_that_run_writes) {
  for (const char* how : {"--ranks 2",
#ifdef INLAY_HAS_NPU
                          "--backend cpu+npu --place layers:0-0=npu"
#endif
       }) {
    const ServeProgram server(std::string("--batch 3 ") + how);
    const HttpAnswer answer = server.completion({{"prompt", prompts[0]}, {"max_tokens", 12}, {"temperature", 0}});
    EXPECT_EQ(text_of(answer), alone(prompts[0], std::string("--tokens 12 ") + how)) << how;
  }
}

TEST_F(Serve, a_completion_is_the_text_that_run_writes) {
  const ServeProgram server("--batch 3");
  const struct {
    Json body;
    std::string options, finish;
  } cases[] = {
      {{{"max_tokens", 40}, {"temperature", 0}}, "--tokens 40", "length"},
      {{{"temperature", 0}}, "--tokens 16", "length"},
      {{{"max_tokens", 40}, {"seed", 3}}, "--tokens 40 --temperature 1 --seed 3", "length"},
      {{{"max_tokens", 30}, {"temperature", 0.8}, {"seed", 4}, {"top_p", 0.8}, {"top_k", 20}, {"min_p", 0.02}},
       "--tokens 30 --temperature 0.8 --seed 4 --top-p 0.8 --top-k 20 --min-p 0.02",
       "length"},
      {{{"max_tokens", 30},
        {"temperature", 0},
        {"presence_penalty", 1},
        {"frequency_penalty", 0.5},
        {"repetition_penalty", 1.2},
        {"logit_bias", {{"300", 2}, {"2", -100}}}},
       "--tokens 30 --presence-penalty 1 --frequency-penalty 0.5 --repetition-penalty 1.2 --logit-bias 300=2 "
       "--logit-bias 2=-100",
       "length"},
      {{{"max_tokens", 60}, {"temperature", 0}, {"stop", "ed "}}, "--tokens 60 --stop 'ed '", "stop"},
      {{{"max_tokens", 60}, {"temperature", 0}, {"stop", {"zzz", ". "}}}, "--tokens 60 --stop zzz --stop '. '", "stop"},
      {{{"max_tokens", 2000}, {"temperature", 0}}, "--tokens 2000", "stop"},
  };
  for (const auto& each : cases)
    for (const std::string& prompt : {prompts[0], prompts[1]}) {
      Json body = each.body;
      body["prompt"] = prompt;
      const HttpAnswer answer = server.completion(body);
      const std::string text = text_of(answer);
      EXPECT_EQ(text, alone(prompt, each.options)) << body;
      const Json whole = answer.json();
      EXPECT_EQ(whole["choices"][0]["finish_reason"], each.finish) << body;
      EXPECT_EQ(whole["object"], "text_completion");
      EXPECT_EQ(whole["model"], "stories");
      // In pieces.
      body["stream"] = true;
      body["stream_options"] = {{"include_usage", true}};
      std::string pieces;
      const auto events = events_of(server.completion(body));
      ASSERT_GE(events.size(), 3u);
      for (const Json& event : events) {
        if (&event == &events.back()) break;
        EXPECT_TRUE(event["usage"].is_null());
        pieces += event["choices"][0]["text"].get<std::string>();
        EXPECT_EQ(event["choices"][0]["finish_reason"].is_null(), &event != &events[events.size() - 2]) << event;
      }
      EXPECT_EQ(pieces, text) << body;
      EXPECT_TRUE(each.finish == "stop" || events.size() > 5) << "it came at once";
      EXPECT_EQ(events[events.size() - 2]["choices"][0]["finish_reason"], each.finish);
      EXPECT_EQ(events.back()["usage"], whole["usage"]) << body;
    }
}

TEST_F(Serve, what_might_have_become_a_stop_string_is_written_at_the_end) {
  const ServeProgram server;
  Json body{{"prompt", "Once upon a time"}, {"max_tokens", 4}, {"temperature", 0}};
  for (const char* stop : {"zzz", "w and", "owl", "a brown"}) {
    body["stop"] = stop;
    EXPECT_EQ(text_of(server.completion(body)), ", a brow") << stop;
  }
}

TEST_F(Serve, usage_counts_tokens) {
  const ServeProgram server;
  const auto usage = [&](const Json& body) { return server.completion(body).json()["usage"]; };
  EXPECT_EQ(usage({{"prompt", {1, 300, 301}}, {"max_tokens", 7}, {"logit_bias", {{"2", -100}}}}),
            (Json{{"prompt_tokens", 3}, {"completion_tokens", 7}, {"total_tokens", 10}}));
  // A prompt counts once, whatever n is.
  EXPECT_EQ(usage({{"prompt", {{1, 300, 301}, {1, 302}}}, {"n", 3}, {"max_tokens", 2}, {"logit_bias", {{"2", -100}}}}),
            (Json{{"prompt_tokens", 5}, {"completion_tokens", 12}, {"total_tokens", 17}}));
}

TEST_F(Serve, prompts_are_strings_or_tokens_one_or_many) {
  const ServeProgram server;
  const auto with = [](const Json& prompt) { return Json{{"prompt", prompt}, {"max_tokens", 20}, {"temperature", 0}}; };
  const std::string from_nothing = text_of(server.completion(with("")));
  EXPECT_EQ(from_nothing, alone("", "--tokens 20"));
  EXPECT_NE(text_of(server.completion(with({1}))).find(from_nothing), std::string::npos);  // BOS
  const HttpAnswer two = server.completion(with({prompts[0], prompts[3]}));
  EXPECT_EQ(text_of(two, 0), alone(prompts[0], "--tokens 20"));
  EXPECT_EQ(text_of(two, 1), alone(prompts[3], "--tokens 20"));
  const HttpAnswer tokens = server.completion(with({{1, 300}, {1}}));
  EXPECT_EQ(text_of(tokens, 0), text_of(server.completion(with({1, 300}))));
  EXPECT_EQ(text_of(tokens, 1), text_of(server.completion(with({1}))));
}

TEST_F(Serve, eight_at_once_are_those_alone) {
  const ServeProgram server("--batch 5 --cache-tokens 256");
  const auto body = [](std::size_t i) {
    return Json{{"prompt", prompts[i]}, {"max_tokens", 60}, {"temperature", 0.9}, {"seed", i}, {"stream", i % 2 == 1}};
  };
  std::vector<HttpAnswer> answers(std::size(prompts));
  {
    std::vector<std::jthread> clients;
    for (std::size_t i = 0; i < answers.size(); ++i)
      clients.emplace_back([&, i] { answers[i] = server.completion(body(i)); });
  }
  for (std::size_t i = 0; i < answers.size(); ++i) {
    std::string text;
    if (i % 2 == 0)
      text = text_of(answers[i]);
    else
      for (const Json& event : events_of(answers[i])) text += event["choices"][0]["text"].get<std::string>();
    EXPECT_EQ(text, alone(prompts[i], "--tokens 60 --temperature 0.9 --seed " + std::to_string(i))) << i;
  }
}

TEST_F(Serve, n_texts_of_a_prompt_compute_it_once_and_have_seeds_of_their_own) {
  const ServeProgram server;
  Json body{{"prompt", Json::array()}, {"max_tokens", 12}, {"seed", 9}, {"n", 3}};
  for (int i = 0; i < 37; ++i) body["prompt"].push_back(i == 0 ? 1 : 300 + i);
  const HttpAnswer three = server.completion(body);
  EXPECT_TRUE(server.comes_to("inlay_prompt_tokens_computed_total", 37));
  EXPECT_TRUE(server.comes_to("inlay_prompt_tokens_reused_total", 0));
  body["n"] = 1;
  for (int i = 0; i < 3; ++i) {
    body["seed"] = 9 + i;
    EXPECT_EQ(text_of(three, static_cast<std::size_t>(i)), text_of(server.completion(body)));
  }
  EXPECT_NE(text_of(three, 0), text_of(three, 1));
  // None is given: no two calls are alike.
  body.erase("seed");
  EXPECT_NE(text_of(server.completion(body)), text_of(server.completion(body)));
}

TEST_F(Serve, texts_of_two_salts_share_no_block) {
  const ServeProgram server;
  Json body{{"prompt", Json::array()}, {"max_tokens", 4}, {"temperature", 0}};
  for (int i = 0; i < 37; ++i) body["prompt"].push_back(i == 0 ? 1 : 300 + i);
  const std::string text = text_of(server.completion(body));
  const struct {
    Json salt;
    int reused;  // by now
  } calls[] = {{nullptr, 32}, {"ann", 32}, {"ann", 64}, {"bob", 64}, {nullptr, 96}};
  for (const auto& call : calls) {
    body["cache_salt"] = call.salt;
    EXPECT_EQ(text_of(server.completion(body)), text);
    EXPECT_TRUE(server.comes_to("inlay_prompt_tokens_reused_total", call.reused)) << call.salt;
  }
}

TEST_F(Serve, a_text_may_go_on_behind_its_end) {
  const ServeProgram server;
  Json body{{"prompt", prompts[0]}, {"max_tokens", 400}, {"temperature", 0}};
  const HttpAnswer ended = server.completion(body);
  ASSERT_EQ(ended.json()["choices"][0]["finish_reason"], "stop");
  body["ignore_eos"] = true;
  const Json goes_on = server.completion(body).json();
  EXPECT_EQ(goes_on["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(goes_on["usage"]["completion_tokens"], 400);
  EXPECT_TRUE(goes_on["choices"][0]["text"].get<std::string>().starts_with(text_of(ended)));
}

TEST_F(Serve, a_chat_is_that_of_run) {
  const ServeProgram server(plain());
  write("line", "Once upon a time\n");
  ASSERT_EQ(std::system((std::string(inlay_program) + " run --chat --tokens 30" + plain() + " <" + file("line") + " >" +
                         file("out") + " 2>" + file("err"))
                            .c_str()),
            0);
  std::string expected = read(file("out"));
  ASSERT_TRUE(expected.ends_with('\n'));
  expected.pop_back();
  Json body{
      {"messages", {{{"role", "user"}, {"content", "Once upon a time"}}}}, {"max_tokens", 30}, {"temperature", 0}};
  const HttpAnswer answer = server.chat(body);
  EXPECT_EQ(text_of(answer), expected);
  EXPECT_EQ(answer.json()["object"], "chat.completion");
  EXPECT_EQ(answer.json()["choices"][0]["message"]["role"], "assistant");
  body["messages"][0]["content"] = {{{"type", "text"}, {"text", "Once upon"}}, {{"type", "text"}, {"text", " a time"}}};
  EXPECT_EQ(text_of(server.chat(body)), expected);
  body["stream"] = true;
  const auto events = events_of(server.chat(body));
  std::string pieces;
  for (const Json& event : events) pieces += event["choices"][0]["delta"].value("content", "");
  EXPECT_EQ(pieces, expected);
  EXPECT_EQ(events.front()["choices"][0]["delta"]["role"], "assistant");
  EXPECT_EQ(events.front()["object"], "chat.completion.chunk");
  EXPECT_FALSE(events.front().contains("usage"));
  // A switch of the template is heard.
  body["stream"] = false;
  const int before = server.chat(body).json()["usage"]["prompt_tokens"];
  body["chat_template_kwargs"] = {{"loud", true}};
  EXPECT_GT(server.chat(body).json()["usage"]["prompt_tokens"], before);
  // Without max_tokens an answer ends by itself.
  body.erase("max_tokens");
  EXPECT_EQ(server.chat(body).json()["choices"][0]["finish_reason"], "stop");
  // .. or where the context does.
  body["logit_bias"] = {{"2", -100}};
  const Json full = server.chat(body).json();
  EXPECT_EQ(full["choices"][0]["finish_reason"], "length");
  EXPECT_EQ(full["usage"]["total_tokens"], 513);  // the last one is in no cache
}

// Bytes that are parts of characters, in any order: each event is whole characters, all of them the text.
TEST_F(Serve, pieces_do_not_split_characters) {
  const ServeProgram server;
  Json body{{"prompt", "Once"}, {"max_tokens", 60}, {"seed", 1}, {"logit_bias", {{"198", 60}, {"172", 60}}}};
  const std::string text = text_of(server.completion(body));
  EXPECT_NE(text.find("\xc3\xa9"), std::string::npos) << text;
  EXPECT_NE(text.find("\xef\xbf\xbd"), std::string::npos) << text;
  body["stream"] = true;
  std::string pieces;
  for (const Json& event : events_of(server.completion(body))) pieces += event["choices"][0]["text"].get<std::string>();
  EXPECT_EQ(pieces, text);
}

TEST_F(Serve, tells_of_itself) {
  const ServeProgram server("--name tales");
  EXPECT_EQ(server.ask(get("/health")).json()["status"], "ok");
  const Json models = server.ask(get("/v1/models")).json();
  EXPECT_EQ(models["data"][0]["id"], "tales");
  EXPECT_EQ(server.ask(get("/v1/models/tales")).json()["object"], "model");
  EXPECT_EQ(server.ask(get("/v1/models/stories")).status, 404);
  EXPECT_EQ(
      server.completion({{"prompt", "a"}, {"model", "tales"}, {"max_tokens", 3}, {"logit_bias", {{"2", -100}}}}).status,
      200);
  EXPECT_EQ(server.completion({{"prompt", "a"}, {"model", "stories"}}).status, 404);
  EXPECT_TRUE(server.comes_to("inlay_requests_total{status=\"200\"}", 1));
  EXPECT_TRUE(server.comes_to("inlay_requests_total{status=\"404\"}", 1));
  EXPECT_TRUE(server.comes_to("inlay_texts_total{finish=\"length\"}", 1));
  EXPECT_TRUE(server.comes_to("inlay_generated_tokens_total", 3));
  EXPECT_TRUE(server.comes_to("inlay_step_seconds_count", 3));
  EXPECT_TRUE(server.comes_to("inlay_texts_running", 0));
  EXPECT_TRUE(server.comes_to("inlay_preemptions_total", 0));
}

TEST_F(Serve, a_connection_may_ask_again) {
  const ServeProgram server;
  Socket socket(server.port);
  for (int i = 0; i < 3; ++i) {
    socket.received.clear();
    ASSERT_TRUE(socket.send("GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"));
    ASSERT_TRUE(socket.receive_until("{\"status\":\"ok\"}")) << i << socket.received;
  }
}

TEST_F(Serve, refuses_what_it_cannot_serve) {
  expect_refused("serve --port 70000", {"--port"});
  expect_refused("serve --batch 200", {"requests is 200"});
  expect_refused("serve nowhere.gguf", {"nowhere.gguf"});
  expect_refused("serve --host 192.0.2.1", {"--host", "192.0.2.1"});
  expect_refused("serve --template " + file("nowhere"), {"nowhere"});
  const ServeProgram server;
  expect_refused("serve --port " + std::to_string(server.port), {"--port", std::to_string(server.port).c_str()});
}

TEST_F(Serve, ends_by_a_signal) {
  for (const int signal : {SIGTERM, SIGINT}) {
    ServeProgram server("--backend reference");
    Socket busy(server.port), half(server.port), idle(server.port);
    ASSERT_TRUE(half.send("POST /v1/comp"));
    const Json endless{
        {"prompt", "Once"}, {"max_tokens", 500}, {"n", 4}, {"stream", true}, {"logit_bias", {{"2", -100}}}};
    ASSERT_TRUE(busy.send(post("/v1/completions", endless.dump())));
    ASSERT_TRUE(busy.receive_until("data: "));
    EXPECT_EQ(server.stop(signal), 0);
    while (busy.receive()) continue;
    EXPECT_NE(busy.received.find("the server is stopping"), std::string::npos) << busy.received;
    EXPECT_EQ(busy.received.find("[DONE]"), std::string::npos);
    EXPECT_FALSE(Socket(server.port).connected());
  }
}

TEST_F(Serve, openai_has_its_own_client) {
  const std::string script = (source / "scripts/fetch_openai.sh").string();
  const int fetched = std::system((script + " >" + file("path") + " 2>" + file("err")).c_str());
  INLAY_NEEDS(!(WIFEXITED(fetched) && WEXITSTATUS(fetched) == 77), "pypi", "no package registry answers");
  ASSERT_EQ(fetched, 0) << read(file("err"));
  std::string path = read(file("path"));
  while (path.ends_with('\n')) path.pop_back();
  const ServeProgram server("--batch 4" + plain());
  const int status =
      std::system(("PYTHONPATH=" + path + " timeout 300 python3 " + (source / "tests/exec/serve_openai.py").string() +
                   " http://127.0.0.1:" + std::to_string(server.port) + "/v1 >" + file("out") + " 2>&1")
                      .c_str());
  EXPECT_EQ(status, 0) << read(file("out"));
}

}  // namespace
}  // namespace inlay::test
