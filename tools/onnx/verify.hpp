// ONNX backend node tests through our operators.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include <inlay/exec/eager.hpp>

namespace inlay::tools {

struct Verdict {
  enum class Kind { pass, fail, skip } kind = Kind::pass;
  std::string detail;  // fail: what and by how much; skip: the reason
};

// Directories with model.onnx, and those right below a directory that has none. Sorted by name.
Expected<std::vector<std::string>> find_cases(const std::vector<std::string>& directories);

// One case: test_data_set_0 of the directory. An error is a file that cannot be read.
Expected<Verdict> verify_case(exec::Eager& run, const std::string& directory);

// One line a case and a closing count; a case whose files are wrong fails, and the next one has its turn. 0: nothing
// failed; 1: something did; 2: there are no cases.
int verify(exec::Eager& run, const std::vector<std::string>& directories, std::ostream& out, std::ostream& errors);

}  // namespace inlay::tools
