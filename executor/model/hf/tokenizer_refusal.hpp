// Why a tokenizer.json cannot be run: the first part of it that we do not do, by name.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/core/quote.hpp>

#include "executor/model/json/json.hpp"

namespace inlay::exec {

class TokenizerRefusal {
 public:
  explicit TokenizerRefusal(std::string path) : path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  const std::string& problem() const { return problem_; }  // empty: none

  // All of them are false, and the first is kept.
  bool refuse(const std::string& what) {
    if (problem_.empty()) problem_ = path_ + ": " + what;
    return false;
  }
  bool refuse(std::string_view part, const Json& value, std::string_view wanted) {
    if (!problem_.empty()) return false;  // a million of them would be described for nothing
    const std::string is = value ? quote(written(value)) : "missing";
    return refuse("the " + std::string(part) + " is " + is + "; it must be " + std::string(wanted));
  }
  bool keys(const Json& part, std::string_view name, std::initializer_list<std::string_view> known) {
    for (const auto& [key, value] : part.members())
      if (std::find(known.begin(), known.end(), key) == known.end())
        return refuse("the " + std::string(name) + " has the key " + quote(key) + ", which is unknown");
    return true;
  }

  // The steps of one part of the chain: none, itself, or those of a Sequence.
  Json::Elements steps(const Json& json, const char* part, const char* list) {
    const Json whole = json.find(part);
    if (!whole) return {};
    if (whole.find("type") != "Sequence") return whole.alone();
    keys(whole, part, {"type", list});
    const Json each = whole.find(list);
    if (!each.is_array()) refuse(std::string(part) + "'s " + list, each, "a list");
    return each.elements();
  }

 private:
  std::string path_, problem_;
};

}  // namespace inlay::exec
