// Models that are split into several GGUF files: read as one, and refused by name where the parts do not fit together.
#include <inlay/model/load.hpp>

#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/vocabulary.hpp"
#include "tests/model/support/tiny_model.hpp"
#include "tests/support/words.hpp"

namespace inlay::exec::test {
namespace {

struct Part {
  std::uint32_t no = 0, count = 3, tensors = 0;
  index first = 0, last = 0;  // of the model's tensors
};

class GgufParts : public ::testing::Test {
 protected:
  GgufParts() : tiny_(tiny_model()) {
    const auto all = static_cast<index>(tiny_.file.tensors().size());
    for (std::uint32_t no = 0; no < 3; ++no)
      parts_.push_back({.no = no,
                        .tensors = static_cast<std::uint32_t>(all),
                        .first = no == 0   ? 0
                                 : no == 1 ? 2
                                           : all - 1,
                        .last = no == 0   ? 2
                                : no == 1 ? all - 1
                                          : all});
  }

  std::string path(std::uint32_t no) const {
    return directory_ / ("m-0000" + std::to_string(no + 1) + "-of-00003.gguf");
  }
  void write(
      const Part& part, const std::string& path, const std::function<void(GgufWriter&)>& more = [](GgufWriter&) {}) {
    GgufWriter writer;
    if (part.no == 0) {
      ASSERT_TRUE(write_gguf_config(tiny_.file.config, tiny_.file.path, writer));
      write_gguf_vocabulary(tiny_.file.tokenizer, tiny_.file.config.vocab, writer);
    }
    writer.set("split.no", part.no), writer.set("split.count", part.count);
    writer.set("split.tensors.count", part.tensors);
    more(writer);
    for (index i = part.first; i < part.last; ++i) {
      const WeightTensor& t = tiny_.file.tensors()[static_cast<std::size_t>(i)];
      const index bytes = 4 * t.extents[static_cast<std::size_t>(t.rank - 1)];
      writer.tensor(t.name, t.type, {t.extents.data(), static_cast<std::size_t>(t.rank)},
                    [&t, bytes](index row, std::byte* out) {
                      std::memcpy(out, t.data + row * bytes, static_cast<std::size_t>(bytes));
                      return Status{};
                    });
    }
    const Status status = writer.write(path);
    ASSERT_TRUE(status) << status.message();
  }
  void write_all() {
    for (const Part& part : parts_) write(part, path(part.no));
  }
  void expect_refused(const std::string& file, StatusCode code, std::initializer_list<const char*> words) {
    const auto model = load_model(file);
    ASSERT_FALSE(model);
    EXPECT_EQ(model.error().message().find('\n'), std::string_view::npos) << model.error().message();
    inlay::test::expect_refused(model.error(), code, words);
  }

  const TemporaryDirectory directory_;
  const TinyModel tiny_;
  std::vector<Part> parts_;
};

TEST_F(GgufParts, are_one_model) {
  write_all();
  const auto model = load_model(path(0));
  ASSERT_TRUE(model) << model.error().message();
  ASSERT_EQ(model->tensors().size(), tiny_.file.tensors().size());
  for (const WeightTensor& t : tiny_.file.tensors()) {
    const WeightTensor* read = model->find(t.name);
    ASSERT_NE(read, nullptr) << t.name;
    ASSERT_EQ(read->bytes, t.bytes);
    EXPECT_EQ(std::memcmp(read->data, t.data, static_cast<std::size_t>(t.bytes)), 0) << t.name;
  }
  EXPECT_EQ(model->tokenizer.tokens.size(), tiny_.file.tokenizer.tokens.size());
}

TEST_F(GgufParts, one_of_one_is_a_file_of_any_name) {
  Part whole = parts_[0];
  whole.count = 1, whole.last = static_cast<index>(tiny_.file.tensors().size());
  write(whole, directory_ / "m.gguf");
  EXPECT_TRUE(load_model(directory_ / "m.gguf"));
}

TEST_F(GgufParts, are_found_by_the_name_of_the_first) {
  write_all();
  expect_refused(path(1), StatusCode::unsupported, {"00002-of-00003", "part 2 of 3", "-00001-of-00003.gguf"});
  std::filesystem::copy_file(path(0), directory_ / "m.gguf");
  expect_refused(directory_ / "m.gguf", StatusCode::unsupported, {"m.gguf", "3 parts", "-00001-of-00003.gguf"});
  std::filesystem::remove(path(2));
  expect_refused(path(0), StatusCode::not_found, {"m-00003-of-00003.gguf"});
}

TEST_F(GgufParts, that_do_not_fit_together_are_refused) {
  using enum StatusCode;
  const auto refuse = [&](auto change, StatusCode code, std::initializer_list<const char*> words) {
    write_all();
    change();
    expect_refused(path(0), code, words);
  };
  const auto other = [&](std::uint32_t no, auto change) {
    return [this, no, change] {
      Part part = parts_[no];
      change(part);
      write(part, path(no));
    };
  };
  refuse(other(1, [](Part& p) { p.no = 2; }), corrupt_data, {"00002-of", "'split.no' is 2", "must be 1", "00001-of"});
  refuse(other(1, [](Part& p) { p.count = 4; }), corrupt_data, {"00002-of", "'split.count' is 4", "must be 3"});
  refuse(other(2, [](Part& p) { p.tensors = 5; }), corrupt_data, {"00003-of", "'split.tensors.count' is 5"});
  refuse(other(2, [](Part& p) { p.first -= 1; }), corrupt_data, {"00001-of", "two parts", "'"});
  refuse(other(2, [](Part& p) { p.last = p.first; }), corrupt_data, {"00001-of", "11 tensors", "says 12"});
  // A part of another model: its keys are not the first part's.
  const auto with = [&](auto more) { return [this, more] { write(parts_[1], path(1), more); }; };
  refuse(with([](GgufWriter& w) { w.set("general.architecture", "qwen2"); }), corrupt_data,
         {"00002-of", "'general.architecture'", "00001-of"});
  refuse(with([](GgufWriter& w) { w.set("general.name", "another"); }), corrupt_data, {"00002-of", "'general.name'"});
  refuse(with([](GgufWriter& w) { w.set("llama.block_count", 7.0f); }), corrupt_data,
         {"00002-of", "'llama.block_count'"});
  refuse(with([](GgufWriter& w) { w.set("new.key", true); }), corrupt_data, {"00002-of", "'new.key'"});
  refuse([&] { write_text(path(1), "GGUF"); }, corrupt_data, {"00002-of", "ends within"});
  refuse([&] { write_text(path(1), ""); }, corrupt_data, {"00002-of", "magic"});
  refuse(
      [&] {
        Part first = parts_[0];
        first.count = 100000;
        write(first, path(0));
      },
      corrupt_data, {"'split.count' is 100000", "99999"});
}

TEST_F(GgufParts, with_keys_of_the_first_are_read) {
  write_all();
  write(parts_[1], path(1), [&](GgufWriter& w) { w.set("general.architecture", "llama"); });
  EXPECT_TRUE(load_model(path(0)));
}

}  // namespace
}  // namespace inlay::exec::test
