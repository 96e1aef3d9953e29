// The GGUF files of one model, up to nine: u32 length and the file, for each.
//
// They are read from memory of their exact lengths, so that the address sanitizer sees a tensor that passes the end of
// its part; what fits together there must load from files too, and run.
#include <algorithm>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include <inlay/model/load.hpp>

#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/model.hpp"
#include "executor/model/gguf/parts.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/gguf_changes.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

constexpr std::size_t max_parts = 9;

// What does not fit goes: a length that passes the end is that of the rest.
std::vector<std::string> parts_of(const std::uint8_t* data, std::size_t size) {
  std::vector<std::string> parts;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  for (std::uint32_t length = 0; rest.size() > sizeof(length) && parts.size() < max_parts;) {
    std::memcpy(&length, rest.data(), sizeof(length));
    parts.emplace_back(rest.substr(sizeof(length), length));
    rest.remove_prefix(sizeof(length) + parts.back().size());
  }
  return parts;
}

std::string written(const std::vector<std::string>& parts) {
  std::string bytes;
  for (const std::string& part : parts) {
    const auto length = static_cast<std::uint32_t>(part.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length)) += part;
  }
  return bytes;
}

// A tensor goes from one part to another, or is in both.
void move_tensor(fuzz::GgufParts& from, fuzz::GgufParts& to, std::minstd_rand& random) {
  if (from.tensors.empty()) return;
  const std::size_t at = random() % from.tensors.size();
  to.tensors.push_back(from.tensors[at]);
  if (random() % 4 != 0) from.tensors.erase(from.tensors.begin() + static_cast<std::ptrdiff_t>(at));
}

// The keys that number the parts say what is there: a change of the parts is not all that a reader sees.
void renumber(std::vector<std::string>& parts) {
  std::vector<fuzz::GgufParts> files(parts.size());
  std::size_t tensors = 0;
  for (std::size_t no = 0; no < parts.size(); ++no) {
    if (!files[no].read(parts[no])) return;
    tensors += files[no].tensors.size();
  }
  for (std::size_t no = 0; no < parts.size(); ++no) {
    const std::pair<const char*, std::size_t> numbers[] = {
        {"split.no", no}, {"split.count", parts.size()}, {"split.tensors.count", tensors}};
    for (auto& pair : files[no].pairs)
      for (const auto& [key, number] : numbers)
        if (pair.key == key && pair.bytes.size() <= sizeof(number))
          std::memcpy(pair.bytes.data(), &number, pair.bytes.size());
    parts[no] = files[no].written();
  }
}

void change_parts(std::vector<std::string>& parts, std::minstd_rand& random) {
  constexpr std::uint64_t max_data = 1 << 15;
  const std::size_t at = random() % parts.size(), other = random() % parts.size();
  switch (random() % 16) {
    case 0: return std::swap(parts[at], parts[other]);
    case 1: parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at)); return;
    case 2: parts.push_back(parts[at]); return;
    default: break;
  }
  fuzz::GgufParts file, second;
  if (!file.read(parts[at])) {
    parts[at] = fuzz::changed_text(parts[at]);
  } else if (at != other && random() % 3 == 0 && second.read(parts[other])) {
    move_tensor(file, second, random);
    file.lay_out(max_data), second.lay_out(max_data);
    parts[at] = file.written(), parts[other] = second.written();
  } else {
    fuzz::change_gguf(file, random);
    parts[at] = file.written();
  }
}

std::string name_of(std::size_t no, std::size_t count) {
  return "m-0000" + std::to_string(no + 1) + "-of-0000" + std::to_string(count) + ".gguf";
}

// As load_gguf does, with the parts in memory.
Expected<exec::GgufFile> joined(const std::vector<std::string>& parts) {
  const auto part = [&](std::size_t no) {
    return exec::GgufFile::parse(exec::Mapping::borrow(std::as_bytes(std::span(parts[no]))), name_of(no, parts.size()));
  };
  auto file = part(0);
  Status status = file ? exec::check_first_gguf_part(*file) : Status();
  for (std::size_t no = 1; file && status && no < parts.size(); ++no) {
    auto next = part(no);
    status = next ? exec::take_gguf_part(*file, std::move(*next), static_cast<inlay::index>(no))
                  : Status(next.error().code(), next.error().message());
  }
  if (file && status) status = exec::check_gguf_parts(*file);
  if (!status) return failure(std::move(status));
  return file;
}

// Each tensor once, with the bytes of its part.
void expect_same(const exec::ModelFile& memory, const exec::ModelFile& files) {
  const auto same = [](const exec::WeightTensor& a, const exec::WeightTensor& b) {
    return a.name == b.name && a.bytes == b.bytes &&
           (a.bytes == 0 || std::memcmp(a.data, b.data, static_cast<std::size_t>(a.bytes)) == 0);
  };
  const auto x = memory.tensors(), y = files.tensors();
  if (!std::equal(x.begin(), x.end(), y.begin(), y.end(), same))
    fuzz::broken_promise("files have the tensors that they have in memory");
  for (std::size_t i = 1; i < x.size(); ++i)
    if (x[i].name == x[i - 1].name) fuzz::broken_promise("a tensor is there once: " + x[i].name);
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  std::vector<std::string> parts = parts_of(data, size);
  if (random() % 5 == 0 || parts.empty()) return LLVMFuzzerMutate(data, size, max_size);
  change_parts(parts, random);
  if (random() % 4 != 0) renumber(parts);
  const std::string bytes = written(parts);
  if (bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data, bytes.data(), bytes.size());
  return bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> parts = parts_of(data, size);
  if (parts.empty()) return 0;
  const std::string end = "-of-0000" + std::to_string(parts.size()) + ".gguf";
  const test::Growth growth;
  const auto refused = [&](const Status& status) {
    fuzz::expect_clean(status, end), fuzz::expect_bounded(growth.bytes(), size);
    return 0;
  };
  const auto file = joined(parts);
  if (!file) return refused(file.error());
  auto model = exec::gguf_model(*file);
  if (!model) return refused(model.error());
  const fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  for (std::size_t no = 0; no < parts.size(); ++no) files.write(name_of(no, parts.size()), parts[no]);
  const auto loaded = exec::load_model(files.path(name_of(0, parts.size())));
  // The key may count others than there are; the name of a file counts those.
  const bool counted = loaded || loaded.error().message().find("its name must end in") == std::string_view::npos;
  if (!loaded && counted)
    fuzz::broken_promise("what loads from memory loads from files: " + std::string(loaded.error().message()));
  if (!loaded) return refused(loaded.error());
  expect_same(*model, *loaded);
  fuzz::use_tokenizer(model->tokenizer, "ab abc \xff</s>  b");
  fuzz::run_tokens(std::move(*model));
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
