// Models: texts of several prompts, token for token, and chats in tokens.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/variant.h>
#include <nanobind/stl/vector.h>

#include <atomic>
#include <exception>
#include <memory>
#include <optional>
#include <variant>

#include "arguments.hpp"
#include "backend.hpp"

namespace nb = nanobind;

namespace inlay::python {

namespace {

using Tokens = std::vector<std::int32_t>;
using Named = nb::typed<nb::dict, nb::str, nb::object>;
using Prompt = std::variant<std::string, Tokens>;

// Scalars by name. What is no name of a field is handed on, to be refused by name.
Arguments read_scalars(const Named& given) {
  Arguments arguments;
  for (const auto& [key, value] : given) {
    const std::string name = nb::cast<std::string>(key);
    const inlay_field* field = nullptr;
    std::string known;
    for (const inlay_field& each : fields_of("sampling").all) {
      if (each.role != INLAY_SCALAR) continue;
      known += std::string(known.empty() ? "" : " ") + each.name;
      if (name == each.name) field = &each;
    }
    if (field == nullptr)
      throw nb::type_error(("there is no argument '" + name + "' of sampling; it must be one of " + known).c_str());
    arguments.add("", *field, value);
  }
  return arguments;
}

// A callback of C around one of Python: what that throws ends all texts, and is thrown again behind the call.
struct Callback {
  nb::object function;
  std::exception_ptr thrown;

  static std::int32_t on_text(void* user, std::size_t i, const char* text, std::size_t bytes, std::int32_t token) {
    auto& self = *static_cast<Callback*>(user);
    const nb::gil_scoped_acquire held;
    if (self.thrown) return 0;
    try {
      if (PyErr_CheckSignals() != 0) throw nb::python_error();
      return nb::cast<bool>(self.function(i, nb::bytes(text, bytes), token)) ? 1 : 0;
    } catch (...) {
      self.thrown = std::current_exception();
      return 0;
    }
  }
  static void on_progress(void* user, std::int64_t done, std::int64_t all) {
    auto& self = *static_cast<Callback*>(user);
    const nb::gil_scoped_acquire held;
    if (self.thrown) return;
    try {
      self.function(done, all);
    } catch (...) {
      self.thrown = std::current_exception();
    }
  }
  void rethrow() const {
    if (thrown) std::rethrow_exception(thrown);
  }
};

class Model {
 public:
  Model(const std::string& path, std::optional<Backend> backend, const std::optional<std::string>& kv_type,
        std::int64_t context, std::int64_t cache_tokens, std::int32_t batch, nb::object on_progress)
      : backend_(std::move(backend)) {
    Callback callback{std::move(on_progress), {}};
    inlay_model_options options{};
    options.size = sizeof options;
    options.backend = backend_ ? backend_->handle.get() : nullptr;
    options.kv_type = kv_type ? kv_type->c_str() : nullptr;
    options.context = context;
    options.cache_tokens = cache_tokens;
    options.batch = batch;
    options.on_progress = callback.function.is_none() ? nullptr : Callback::on_progress;
    options.user = &callback;
    inlay_model* model = nullptr;
    inlay_code code;
    {
      const nb::gil_scoped_release released;
      code = inlay_model_open(path.c_str(), &options, &model);
    }
    model_ = {model, inlay_model_close};
    callback.rethrow();
    check(code);
  }

  Tokens tokenize(const std::string& text) const {
    return tokens_of(text.size() + 8, [&](std::int32_t* tokens, std::size_t room, std::size_t* count) {
      return inlay_model_tokenize(model(), text.data(), text.size(), tokens, room, count);
    });
  }

  Tokens tokenize_chat(const std::vector<std::pair<std::string, std::string>>& messages, const Named& switches,
                       const std::optional<std::string>& chat_template) const {
    std::vector<inlay_chat_message> given;
    std::size_t bytes = 256;  // of what the template writes around them
    for (const auto& [role, content] : messages) {
      given.push_back({role.c_str(), content.data(), content.size()});
      bytes += content.size() + 32;
    }
    std::vector<std::string> names;
    for (nb::handle key : switches.keys()) names.push_back(nb::cast<std::string>(key));
    std::vector<inlay_argument> flags;
    for (const std::string& name : names) {
      if (!PyBool_Check(switches[name.c_str()].ptr()))
        throw nb::type_error(("switches['" + name + "'] is no bool; it must be one").c_str());
      flags.push_back(inlay_give_flag(name.c_str(), switches[name.c_str()].ptr() == Py_True));
    }
    inlay_chat chat{};
    chat.size = sizeof chat;
    chat.messages = given.data();
    chat.message_count = given.size();
    chat.switches = flags.data();
    chat.switch_count = flags.size();
    chat.chat_template = chat_template ? chat_template->c_str() : nullptr;
    return tokens_of(bytes, [&](std::int32_t* tokens, std::size_t room, std::size_t* count) {
      return inlay_model_tokenize_chat(model(), &chat, tokens, room, count);
    });
  }

  // Why each text ended (INLAY_END_TOKENS ..).
  std::vector<std::int32_t> generate(const std::vector<Prompt>& prompts, std::int64_t tokens, const Named& sampling,
                                     const std::vector<std::string>& stops, bool ignore_eos, nb::object on_text) {
    const Arguments scalars = read_scalars(sampling);
    std::vector<inlay_prompt> given;
    for (const Prompt& prompt : prompts) {
      if (const auto* text = std::get_if<std::string>(&prompt))
        given.push_back({text->data(), text->size(), nullptr, 0});
      else
        given.push_back({nullptr, 0, std::get<Tokens>(prompt).data(), std::get<Tokens>(prompt).size()});
    }
    static constexpr std::int32_t no_tokens[1] = {};
    for (inlay_prompt& prompt : given)
      if (prompt.text == nullptr && prompt.tokens == nullptr) prompt.tokens = no_tokens;
    std::vector<const char*> stop_words;
    for (const std::string& stop : stops) stop_words.push_back(stop.c_str());
    Callback callback{std::move(on_text), {}};
    inlay_request request{};
    request.size = sizeof request;
    request.prompts = given.data();
    request.prompt_count = given.size();
    request.tokens = tokens;
    request.sampling = scalars.data();
    request.sampling_count = scalars.size();
    request.stops = stop_words.data();
    request.stop_count = stop_words.size();
    request.ignore_eos = ignore_eos;
    std::vector<inlay_text> texts(prompts.size());
    const std::shared_ptr<inlay_model> model = model_;  // close() in another thread takes effect behind the call
    if (model == nullptr) refuse_closed();
    inlay_code code;
    {
      const nb::gil_scoped_release released;
      code = inlay_model_generate(model.get(), &request, Callback::on_text, &callback, texts.data());
    }
    callback.rethrow();
    check(code);
    std::vector<std::int32_t> ends;
    for (const inlay_text& text : texts) ends.push_back(text.end);
    return ends;
  }

  void close() { model_.reset(); }

 private:
  [[noreturn]] static void refuse_closed() { throw nb::value_error("the model is closed; it must be open"); }
  inlay_model* model() const {
    if (model_ == nullptr) refuse_closed();
    return model_.get();
  }
  // Asks for all of them, with room for as many as there seldom are; where there are more, a second time.
  template <class Ask> static Tokens tokens_of(std::size_t room, const Ask& ask) {
    Tokens tokens(room);
    std::size_t count = 0;
    check(ask(tokens.data(), room, &count));
    tokens.resize(count);
    if (count > room) check(ask(tokens.data(), count, &count));
    return tokens;
  }

  std::optional<Backend> backend_;  // outlives the model
  std::shared_ptr<inlay_model> model_;
};

}  // namespace

void add_model(nb::module_& module) {
  nb::class_<Model>(module, "Model")
      .def(nb::init<const std::string&, std::optional<Backend>, const std::optional<std::string>&, std::int64_t,
                    std::int64_t, std::int32_t, nb::object>(),
           nb::arg("path"), nb::arg("backend").none(), nb::arg("kv_type").none(), nb::arg("context"),
           nb::arg("cache_tokens"), nb::arg("batch"), nb::arg("on_progress").none())
      .def("tokenize", &Model::tokenize, nb::arg("text"))
      .def("tokenize_chat", &Model::tokenize_chat, nb::arg("messages"), nb::arg("switches"),
           nb::arg("chat_template").none())
      .def("generate", &Model::generate, nb::arg("prompts"), nb::arg("tokens"), nb::arg("sampling"), nb::arg("stops"),
           nb::arg("ignore_eos"), nb::arg("on_text"))
      .def("close", &Model::close);
}

}  // namespace inlay::python
