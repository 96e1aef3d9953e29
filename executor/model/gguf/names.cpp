#include <charconv>

#include <inlay/model/model_tensors.hpp>

#include "executor/model/gguf/names.hpp"

namespace inlay::exec {

namespace {

// Takes a number off a text; false where there is none.
bool take_number(std::string_view& text, index& number) {
  const auto read = std::from_chars(text.data(), text.data() + text.size(), number);
  if (read.ec != std::errc{} || number < 0) return false;
  text.remove_prefix(static_cast<std::size_t>(read.ptr - text.data()));
  return true;
}
bool take(std::string_view& text, std::string_view beginning) {
  if (!text.starts_with(beginning)) return false;
  text.remove_prefix(beginning.size());
  return true;
}
// Takes "blk.3." off a name.
bool take_layer(std::string_view& name, index& layer) {
  return take(name, "blk.") && take_number(name, layer) && take(name, ".");
}

}  // namespace

std::string gguf_tensor_name(std::string_view name, const Family& family, const ModelConfig& c) {
  index layer = 0;
  std::string_view part = name;
  if (!take_layer(part, layer)) return std::string(name);
  if (family.more_layers && layer >= c.layers) return {};
  if (!family.gguf_ffn_norm.empty() && take(part, family.gguf_ffn_norm) && part.starts_with('.'))
    return block_name(layer, "ffn_norm" + std::string(part));
  return std::string(name);
}

std::string name_in_gguf(std::string_view name, const Family& family) {
  constexpr std::string_view ours = ".ffn_norm.";
  const std::size_t at = name.find(ours);
  if (family.gguf_ffn_norm.empty() || at == name.npos) return std::string(name);
  return std::string(name.substr(0, at + 1)) + std::string(family.gguf_ffn_norm) +
         std::string(name.substr(at + ours.size() - 1));
}

bool take_gguf_expert(std::string_view name, ExpertTensors::Place& place) {
  if (!take_layer(name, place.layer)) return false;
  for (const char* part : {"ffn_gate", "ffn_up", "ffn_down", "ffn_gate_up"}) {
    std::string_view rest = name;
    if (!take(rest, part)) continue;
    const bool of_one = take(rest, ".") && take_number(rest, place.expert);
    if (!of_one && !take(rest, "_exps")) continue;
    place.bias = rest == ".bias";
    if (place.bias || rest == ".weight") return place.part = std::string(part) + "_exps", true;
  }
  return false;
}

}  // namespace inlay::exec
