// Which programs of OpenCL a sweep has compiled: those that show something new. A sweep draws types, forms and sizes
// of several hundred programs, of a second each; that two definitions go together is seen by a third of them.
#pragma once

namespace inlay::test {

// What stands between an operator's test and the loader (cl_programs.cpp) asks and answers here.
struct SweepPrograms {
  bool chosen = false;    // while a case of a sweep runs: of the programs that it asks for, some are not compiled
  bool left_out = false;  // one was not: the case has not run
};
inline SweepPrograms sweep_programs;

}  // namespace inlay::test
