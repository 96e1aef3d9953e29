// SentencePiece's tokenizer.model and a text: u8 length, text of that length, the file.
#include <cstring>
#include <random>
#include <vector>

#include "executor/model/sentencepiece.hpp"
#include "tests/fuzz/support/checkpoint_files.hpp"
#include "tests/fuzz/support/promise.hpp"
#include "tests/fuzz/support/use_model.hpp"
#include "tests/support/growth.hpp"

using namespace inlay;

namespace {

struct WireField {
  std::uint64_t tag = 0, number = 0;
  std::string text;
};

bool varint(std::string_view& from, std::uint64_t& value) {
  value = 0;
  for (unsigned shift = 0; shift < 64 && !from.empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(from[0]);
    from.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

void put_varint(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

bool read_message(std::string_view from, std::vector<WireField>& fields) {
  while (!from.empty()) {
    WireField field;
    if (!varint(from, field.tag)) return false;
    std::uint64_t size = (field.tag & 7) == 5 ? 4 : (field.tag & 7) == 1 ? 8 : 0;
    if ((field.tag & 7) == 0 && !varint(from, field.number)) return false;
    if ((field.tag & 7) == 2 && !varint(from, size)) return false;
    if (size > from.size()) return false;
    field.text = from.substr(0, size);
    from.remove_prefix(size);
    fields.push_back(std::move(field));
  }
  return true;
}

std::string written(const std::vector<WireField>& fields) {
  std::string bytes;
  for (const WireField& field : fields) {
    put_varint(bytes, field.tag);
    if ((field.tag & 7) == 0) put_varint(bytes, field.number);
    if ((field.tag & 7) == 2) put_varint(bytes, field.text.size());
    bytes += field.text;
  }
  return bytes;
}

void change_field(std::vector<WireField>& fields, std::minstd_rand& random, int depth) {
  if (fields.empty()) return;
  const std::size_t at = random() % fields.size(), other = random() % fields.size();
  switch (random() % 8) {
    case 0: fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(at)); return;
    case 1: fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(at), WireField(fields[other])); return;
    case 2: std::swap(fields[at], fields[other]); return;
    case 3: fields[at].tag = (random() % 50) << 3 | (fields[at].tag & 7); return;
    default: break;
  }
  WireField& field = fields[at];
  constexpr std::uint64_t odd[] = {0, 1, 2, 3, 6, 7, 263, 1u << 31, ~std::uint64_t{0}, std::uint64_t{1} << 32};
  if ((field.tag & 7) == 0) field.number = odd[random() % std::size(odd)];
  std::vector<WireField> inner;
  if (depth == 0 && (field.tag & 7) == 2 && read_message(field.text, inner) && !inner.empty()) {
    change_field(inner, random, 1);
    field.text = written(inner);
  } else if (!field.text.empty()) {
    const std::size_t size = field.text.size();
    std::string text = fuzz::changed_text(field.text);
    if ((field.tag & 7) != 2) text.resize(size);
    field.text = std::move(text);
  }
}

}  // namespace

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  std::minstd_rand random(seed);
  const std::size_t head = size == 0 ? 0 : std::size_t{1} + data[0];
  std::vector<WireField> fields;
  if (random() % 4 == 0 || head == 0 || head > size ||
      !read_message({reinterpret_cast<const char*>(data) + head, size - head}, fields))
    return LLVMFuzzerMutate(data, size, max_size);
  for (auto changes = random() % 3 + 1; changes > 0; --changes) change_field(fields, random, 0);
  const std::string bytes = written(fields);
  if (head + bytes.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::memcpy(data + head, bytes.data(), bytes.size());
  return head + bytes.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::size_t head = size == 0 ? 0 : std::size_t{1} + data[0];
  if (head == 0 || head > size) return 0;
  const std::string_view all(reinterpret_cast<const char*>(data), size);
  fuzz::CheckpointFiles& files = fuzz::checkpoint_files();
  files.write("tokenizer.model", all.substr(head));
  const test::Growth growth;
  const auto read = exec::read_sentencepiece(files.path("tokenizer.model"));
  if (!read)
    fuzz::expect_clean(read.error());
  else if (read->problem.empty())
    fuzz::use_tokenizer(*read, all.substr(1, head - 1));
  fuzz::expect_bounded(growth.bytes(), size);
  return 0;
}
