# The first line of SOURCE is "// must not compile: TEXT"; the compiler's message must hold TEXT, so
# that a typo in the test itself is no success.
file(STRINGS ${SOURCE} first LIMIT_COUNT 1)
string(REGEX REPLACE "^// must not compile: " "" expected "${first}")
execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${INCLUDE} -I${INCLUDE}/.. ${SOURCE}
  RESULT_VARIABLE result ERROR_VARIABLE message)
if(result EQUAL 0)
  message(FATAL_ERROR "${SOURCE} compiles")
endif()
string(REGEX REPLACE "inlay::v[0-9]+_[0-9]+::" "inlay::" message "${message}")  # of whatever version
string(FIND "${message}" "${expected}" found)
if(found EQUAL -1)
  message(FATAL_ERROR "${SOURCE} fails for another reason than '${expected}':\n${message}")
endif()
