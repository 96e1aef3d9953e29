// Which operators of a model the second of two devices computes, in the words of its users:
//
//   linears=cl                      all linears; the default
//   layers:0-5=cl                   all operators of these layers
//   layers:0-5=cl,linears=cl        both; of two that name a step the later one counts
//   all=cl,attention=cpu            all but attention
//
// What nobody names is the CPU's.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/exec/plan/step_graph.hpp>

namespace inlay::exec {

class Placement {
 public:
  // `second`: the device beside the cpu; `layers`: the model's. What is refused is named.
  static Expected<Placement> parse(std::string_view words, std::string_view second, index layers);

  bool is_second(const GraphStep& step) const;

 private:
  struct Rule {
    enum class What : unsigned char { all, linears, attention, layers } what;
    index first = 0, last = 0;  // layers
    bool second;
  };
  static Expected<Rule> rule(std::string_view word, std::string_view second, index layers);

  std::vector<Rule> rules_;
};

}  // namespace inlay::exec
