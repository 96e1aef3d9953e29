// An operator's test between Inlay and the loader. While a sweep runs, a program is compiled if no program before it of
// the same source and options, but for definitions, had some two of its definitions together (that a name is not
// defined counts as one). Of those that the compiler optimizes, in 1.7 s each, one definition must be new.
#include "tests/support/cl_programs.hpp"

#include <CL/cl.h>

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "measure/behind.hpp"
#include "tests/support/turns.hpp"

namespace inlay::test {
namespace {

using Definitions = std::map<std::string, std::string>;

// "-D A=1 -x -D B" becomes {A: 1, B: ""}; the words besides go to `others`.
Definitions definitions_of(const std::string& options, std::string& others) {
  Definitions list;
  std::istringstream words(options);
  for (std::string word; words >> word;) {
    if (word != "-D") {
      others += word + ' ';
    } else if (words >> word) {
      const std::size_t end = std::min(word.find('='), word.size());
      list[word.substr(0, end)] = word.substr(end);
    }
  }
  return list;
}

std::string value(const Definitions& list, const std::string& name) {
  const auto found = list.find(name);
  return found == list.end() ? "not defined" : found->second;
}

bool shows_something(const Definitions& program, const std::vector<Definitions>& before, bool in_pairs) {
  std::vector<std::string> names;
  for (const auto& [name, text] : program) names.push_back(name);
  for (const Definitions& one : before)
    for (const auto& [name, text] : one)
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  const auto seen = [&](const std::string& a, const std::string& b) {
    return std::any_of(before.begin(), before.end(), [&](const Definitions& one) {
      return value(one, a) == value(program, a) && value(one, b) == value(program, b);
    });
  };
  for (std::size_t i = 0; i < names.size(); ++i)
    for (std::size_t j = i; j < (in_pairs ? names.size() : i + 1); ++j)
      if (!seen(names[i], names[j])) return true;
  return before.empty();
}

std::string source_of(cl_program program) {
  std::size_t bytes = 0;
  if (clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, nullptr, &bytes) != CL_SUCCESS) return {};
  std::string text(bytes, '\0');
  if (clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, text.data(), nullptr) != CL_SUCCESS) return {};
  return text;
}

// Compiled so far, by source and options.
std::map<std::string, std::vector<Definitions>> compiled;

bool is_compiled(cl_program program, const std::string& options) {
  if (!sweep_programs.chosen || is_set("INLAY_SWEEP", "whole")) return true;
  std::string like = source_of(program);
  Definitions definitions = definitions_of(options, like);
  std::vector<Definitions>& before = compiled[like];
  if (std::find(before.begin(), before.end(), definitions) != before.end()) return true;
  const bool optimized = options.find("-cl-opt-disable") == std::string::npos;
  if (!shows_something(definitions, before, !optimized)) return false;
  before.push_back(std::move(definitions));
  return true;
}

}  // namespace
}  // namespace inlay::test

extern "C" cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id* devices, const char* options,
                                 void(CL_CALLBACK* done)(cl_program, void*), void* data) {
  BEHIND(clBuildProgram);
  if (inlay::test::is_compiled(program, options)) return behind(program, n, devices, options, done, data);
  inlay::test::sweep_programs.left_out = true;
  return CL_OUT_OF_RESOURCES;
}
