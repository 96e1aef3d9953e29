# Writes one C++ file that lists what `inlay tune` may change: the tunables of the headers that stand beside launchers. A
# launcher's own test is linked without the other launchers, and its list is the whole one all the same.
#
#   cmake -DROOT=<project> -DHEADERS=<a_tunables.hpp;b/c_tunables.hpp> -DOUTPUT=<file> -P list_tunables.cmake

cmake_minimum_required(VERSION 3.22)

foreach(header IN LISTS HEADERS)
  file(STRINGS ${ROOT}/${header} tunables REGEX "^inline constexpr ClParameter ")
  if(NOT tunables)
    message(FATAL_ERROR "${header} has no line that begins `inline constexpr ClParameter`")
  endif()
  string(APPEND includes "#include \"${header}\"\n")
  foreach(tunable IN LISTS tunables)
    string(REGEX REPLACE "^inline constexpr ClParameter ([a-z_0-9]+).*" "    cl::\\1,\n" name "${tunable}")
    string(APPEND names "${name}")
  endforeach()
endforeach()
file(WRITE ${OUTPUT} "${includes}
namespace inlay {

std::span<const ClParameter> cl_parameters() {
  static constexpr ClParameter all[] = {
${names}  };
  return all;
}

}  // namespace inlay
")
