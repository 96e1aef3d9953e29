#include "executor/model/hf/tokenizer_steps.hpp"

#include <inlay/text/pre_tokenizer.hpp>
#include <inlay/text/spm.hpp>

#include <utility>

namespace inlay::exec {
namespace {

// {"String": text}, and nothing else.
bool is_string_pattern(const Json& pattern, std::string_view text) {
  return pattern.size() == 1 && pattern.find("String") == text;
}

class Steps {
 public:
  Steps(const Json& json, TokenizerRefusal& refusal, TokenizerData& data, std::vector<std::string_view>& splits)
      : json_(json), refusal_(refusal), data_(data), splits_(splits) {}

  void read() {
    for (const Json step : refusal_.steps(json_, "normalizer", "normalizers")) read_normalizer(step);
    for (const Json step : refusal_.steps(json_, "pre_tokenizer", "pretokenizers")) read_pre_tokenizer(step);
    data_.kind = bytes_ ? TokenizerData::Kind::bpe : TokenizerData::Kind::character_bpe;
    if (bytes_ ? prepend_ || replace_ : replace_ && data_.metaspace)
      refusal_.refuse("normalizer", json_.find("normalizer"), "NFC or null before ByteLevel and Metaspace");
    if (!bytes_ && !((prepend_ ? replace_ : replace_ || data_.metaspace) && splits_.empty()))
      refusal_.refuse(
          "pre_tokenizer", json_.find("pre_tokenizer"),
          "byte-level (ByteLevel or a Sequence that ends so), or Metaspace, or null behind a normalizer that "
          "replaces spaces by U+2581");
    if (prepend_) data_.add_space_prefix = data_.space_after_special = true;
    bytes_ ? read_byte_decoder() : read_character_decoder();
  }

 private:
  void read_normalizer(const Json& step) {
    const std::string_view type = type_of(step);
    if (type == "NFC") {
      refusal_.keys(step, "normalizer NFC", {"type"});
      data_.nfc = true;
    } else if (type == "Prepend" && step.find("prepend") == spm_space && !std::exchange(prepend_, true)) {
      refusal_.keys(step, "normalizer Prepend", {"type", "prepend"});
    } else if (type == "Replace" && is_string_pattern(step.find("pattern"), " ") && step.find("content") == spm_space) {
      refusal_.keys(step, "normalizer Replace", {"type", "pattern", "content"});
      replace_ = true;
    } else {
      refusal_.refuse("normalizer", step, "made of NFC, one Prepend of U+2581 and Replace of spaces by it");
    }
  }

  void read_pre_tokenizer(const Json& step) {
    const std::string_view type = type_of(step);
    if (bytes_) refusal_.refuse("pre_tokenizer's step behind ByteLevel", step, "left out");
    if (type == "Split") {
      read_split(step);
    } else if (type == "Digits") {
      refusal_.keys(step, "pre_tokenizer Digits", {"type", "individual_digits"});
      splits_.push_back(step.find("individual_digits").is_true() ? "\\p{N}" : "\\p{N}+");
    } else if (type == "ByteLevel") {
      refusal_.keys(step, "pre_tokenizer ByteLevel", {"type", "add_prefix_space", "trim_offsets", "use_regex"});
      if (const Json space = step.find("add_prefix_space"); !space.is_false())
        refusal_.refuse("add_prefix_space of the pre_tokenizer ByteLevel", space, "false");
      if (!step.find("use_regex").is_false()) splits_.push_back(gpt2_words());
      bytes_ = true;
    } else if (type == "Metaspace" && !data_.metaspace) {
      read_metaspace(step);
    } else {
      refusal_.refuse("pre_tokenizer", step, "made of Split, Digits and ByteLevel, or one Metaspace");
    }
    if (bytes_ && data_.metaspace) refusal_.refuse("pre_tokenizer's step behind Metaspace", step, "left out");
  }

  void read_split(const Json& step) {
    refusal_.keys(step, "pre_tokenizer Split", {"type", "pattern", "behavior", "invert"});
    const Json pattern = step.find("pattern"), regex = pattern.find("Regex"), behavior = step.find("behavior");
    // Gemma's: the normalizer left no space that it could find.
    if (replace_ && is_string_pattern(pattern, " ") && behavior == "MergedWithPrevious" &&
        !step.find("invert").is_true())
      return;
    if (!regex.is_string())
      refusal_.refuse("pattern of the pre_tokenizer Split", pattern, "a Regex");
    else
      splits_.push_back(regex.text());
    // Isolated keeps matches and what lies between them, whichever of the two `invert` calls the match. Phi-4 removes
    // what lies between them: that is nothing.
    const bool keeps_all = behavior == "Removed" && step.find("invert").is_true() && leaves_nothing(regex.text());
    if (behavior != "Isolated" && !keeps_all)
      refusal_.refuse("behavior of the pre_tokenizer Split", behavior,
                      "\"Isolated\", or \"Removed\" with invert and an expression that matches all of every text");
  }

  void read_metaspace(const Json& step) {
    refusal_.keys(step, "pre_tokenizer Metaspace",
                  {"type", "replacement", "prepend_scheme", "split", "add_prefix_space", "str_rep"});
    if (const Json replacement = step.find("replacement"); replacement != spm_space)
      refusal_.refuse("replacement of the pre_tokenizer Metaspace", replacement, "U+2581");
    const Json scheme = step.find("prepend_scheme"), split = step.find("split"), prefix = step.find("add_prefix_space");
    const bool always = !scheme || scheme == "always", never = scheme == "never" || (!scheme && prefix.is_false());
    if (!never && !always && scheme != "first")
      refusal_.refuse("prepend_scheme of the pre_tokenizer Metaspace", scheme, "\"first\", \"always\" or \"never\"");
    // An older name for the same; "false" contradicts all but "never".
    if (prefix && prefix.is_false() && !never)
      refusal_.refuse("add_prefix_space of the pre_tokenizer Metaspace", prefix,
                      "true where prepend_scheme is not \"never\"");
    if (split && !split.is_boolean()) refusal_.refuse("split of the pre_tokenizer Metaspace", split, "a boolean");
    data_.metaspace = true;
    data_.split_at_spaces = !split.is_false();
    data_.add_space_prefix = !never, data_.space_after_special = always && !never;
  }

  void read_byte_decoder() {
    int good = 0, others = 0;
    for (const Json step : refusal_.steps(json_, "decoder", "decoders"))
      ++(type_of(step) == "ByteLevel" ? good : others);
    if (good != 1 || others != 0) refusal_.refuse("decoder", json_.find("decoder"), "ByteLevel");
  }

  // Strip takes the space away that was put before the text: here that goes with the prefix.
  void read_character_decoder() {
    constexpr std::string_view wanted[] = {"Replace", "ByteFallback", "Fuse", "Strip"};
    std::size_t count = 0;
    bool good = true;
    for (const Json step : refusal_.steps(json_, "decoder", "decoders")) {
      good = good && count < std::size(wanted) && type_of(step) == wanted[count];
      if (type_of(step) == "Replace")
        good = good && is_string_pattern(step.find("pattern"), spm_space) && step.find("content") == " ";
      if (type_of(step) == "Strip") {
        const Json start = step.find("start"), stop = step.find("stop");
        good = good && step.find("content") == " " && start.is_integer() && start.integer() == 1 && stop.is_integer() &&
               stop.integer() == 0;
      }
      ++count;
    }
    if (!good || count < 3)
      refusal_.refuse("decoder", json_.find("decoder"),
                      "Replace of U+2581 by spaces, ByteFallback, Fuse, and perhaps Strip of one space before");
  }

  const Json& json_;
  TokenizerRefusal& refusal_;
  TokenizerData& data_;
  std::vector<std::string_view>& splits_;
  bool prepend_ = false, replace_ = false, bytes_ = false;
};

}  // namespace

void read_tokenizer_steps(const Json& json, TokenizerRefusal& refusal, TokenizerData& data,
                          std::vector<std::string_view>& splits) {
  Steps(json, refusal, data, splits).read();
}

}  // namespace inlay::exec
