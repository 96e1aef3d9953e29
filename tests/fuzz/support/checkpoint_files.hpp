// The files of a checkpoint, written where the loaders look for them.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include "executor/model/json/json.hpp"
#include "tests/fuzz/support/json_tree.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/model/support/same_json.hpp"

namespace inlay::fuzz {

class CheckpointFiles {
 public:
  // In memory, where there is such a place: thousands of them a second.
  CheckpointFiles() {
    const std::filesystem::path memory = "/dev/shm", disk = std::filesystem::temp_directory_path();
    directory_ = ((std::filesystem::is_directory(memory) ? memory : disk) / "inlay_fuzz_XXXXXX").string();
    if (::mkdtemp(directory_.data()) == nullptr) std::abort();
  }
  ~CheckpointFiles() {
    std::error_code error;
    std::filesystem::remove_all(directory_, error);
  }
  CheckpointFiles(const CheckpointFiles&) = delete;
  CheckpointFiles& operator=(const CheckpointFiles&) = delete;

  const std::string& directory() const { return directory_; }
  std::string path(const std::string& name) const { return directory_ + "/" + name; }

  void write(const std::string& name, std::string_view text) const {
    std::FILE* file = std::fopen(path(name).c_str(), "wb");
    if (file == nullptr || std::fwrite(text.data(), 1, text.size(), file) != text.size()) std::abort();
    std::fclose(file);
  }
  // Null: there is no such file. A string is the file's text, JSON or not.
  void write(const std::string& name, const Json* json) const {
    if (json == nullptr)
      ::remove(path(name).c_str());
    else
      write(name, text_of(*json));
  }

  static std::string text_of(const Json& json) {
    return json.is_string() ? json.get<std::string>() : json.dump(-1, ' ', false, Json::error_handler_t::replace);
  }

 private:
  std::string directory_;
};

inline CheckpointFiles& checkpoint_files() {
  static CheckpointFiles files;
  return files;
}

// An input that is an object; discarded where the loaders would refuse it as a file.
inline Json input_of(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto read = exec::parse_json(text, "input");
  if (!read) return Json(Json::value_t::discarded);
  Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!exec::test::same_json(read->root(), json)) broken_promise("a document is what nlohmann's parser makes of it");
  return json;
}

// Null where the key is missing or null, or `object` is none.
inline const Json* member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto at = object.find(key);
  return at == object.end() || at->is_null() ? nullptr : &*at;
}

// The bytes that a text stands for: its characters below U+0100 one by one, others as they are written.
inline std::string bytes_of(const Json* json) {
  std::string bytes;
  if (json == nullptr || !json->is_string()) return bytes;
  const std::string& text = json->get_ref<const std::string&>();
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto lead = static_cast<unsigned char>(text[i]);
    if ((lead == 0xc2 || lead == 0xc3) && i + 1 < text.size())
      bytes += static_cast<char>((lead & 3) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3f));
    else
      bytes += text[i];
  }
  return bytes;
}

}  // namespace inlay::fuzz
