// For a program that stands between Inlay and the OpenCL loader: in a call that it defines, `behind` is the loader's.
#pragma once

#include <dlfcn.h>

namespace inlay::measure {

inline void* in_loader(const char* call) {
  static void* const loader = dlopen("libOpenCL.so.1", RTLD_NOW);
  return dlsym(loader, call);
}

}  // namespace inlay::measure

#define BEHIND(call) static const auto behind = reinterpret_cast<decltype(&call)>(inlay::measure::in_loader(#call))
