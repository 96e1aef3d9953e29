// Ends a text where one of several strings stands in it, which is not printed. What may yet become one is held back, so
// that it does not matter how the text was cut into tokens.
//
//   StopStrings stops({"\n\n", "User:"});
//   for (..) std::cout << stops.push(stream.push(token));     // until stops.stopped()
//   std::cout << stops.finish();
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>

namespace inlay::exec {

class StopStrings {
 public:
  static Expected<StopStrings> make(std::vector<std::string> strings);

  // The text that can be printed now. The string whose last byte comes first ends it; of two that end there, the
  // longer.
  std::string push(std::string_view text);
  bool stopped() const { return stopped_; }
  // What was held back, where no string came.
  std::string finish();

 private:
  explicit StopStrings(std::vector<std::string> strings) : strings_(std::move(strings)) {}

  std::vector<std::string> strings_;  // the longest first
  std::string held_;
  bool stopped_ = false;
};

}  // namespace inlay::exec
