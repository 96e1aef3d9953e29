// Files of our own forms, device descriptions and tuning, read with limits: size, depth and number of values are
// bounded, keys are unique, numbers are finite. Errors name the place by its JSON pointer (RFC 6901). Nothing is
// thrown. The files of a model are others' and may be gigabytes: executor/model/json reads those.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>
#include <tl/expected.hpp>

#include <inlay/core/status.hpp>

namespace inlay::files {

struct JsonLimits {
  std::size_t bytes = 256 * 1024;
  std::size_t depth = 8;
  std::size_t values = 16 * 1024;
};

tl::expected<nlohmann::json, Status> parse_strict_json(std::string_view text, const JsonLimits& limits = {});
// The same, with the members of an object in the order of the text: for a file that is changed and written again.
tl::expected<nlohmann::ordered_json, Status> parse_strict_ordered_json(std::string_view text,
                                                                       const JsonLimits& limits = {});

// `pointer` with one more step; '~' and '/' of the key are escaped. For messages: of a key that is long or
// not printable, it shows what can be shown.
std::string child(const std::string& pointer, std::string_view key);
std::string child(const std::string& pointer, std::size_t index);

// A value in a few printable characters, for messages.
std::string describe(const nlohmann::json& value);

}  // namespace inlay::files
