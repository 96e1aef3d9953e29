// Tries the values of one parameter on some calls. A value stays if it is built, gives what the reference gives, and
// writes nowhere else; the fastest of those takes the place of the usual one if it beats it clearly, twice.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tools/tune/cases.hpp"

namespace inlay::tools {

struct Question {
  std::string op, name;
  std::vector<int> values;
  int usual;
  bool same_bits;                     // results must have those of the usual value
  std::function<Status(int)> choose;  // from now on calls are cut so
};

struct Answer {
  struct Dropped {
    int value;
    std::string reason;
  };
  ClTuned tuned;                 // value == usual where nothing beats it; cases: of the best other value
  int best = 0;                  // the fastest of the other values, whether it is taken or not; 0: there is none
  std::vector<Dropped> dropped;  // the usual value among them: nothing was measured
};

struct Effort {
  double seconds = 2;    // of measuring, for each parameter
  double margin = 0.05;  // what a value must save to be taken
  double batch = 2e-3;   // seconds of calls between two looks at the clock
  int min_rounds = 5;
};

// What the parameter of a device asks. Values beyond the device's work-groups are left out.
Question question_of(Cl& cl, const ClParameter& parameter);

// Leaves the parameter at the answer's value. An error: the device failed.
Expected<Answer> tune(const Question& question, const Cases& cases, const Effort& effort);

}  // namespace inlay::tools
