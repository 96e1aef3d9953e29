# Compiles the C++ examples of README.md as they stand there: their #include lines on top, the rest as
# the body of a function whose parameters are what the examples take for given.
file(READ ${SOURCE}/README.md page)
string(REPLACE ";" "\\;" page "${page}")
string(REGEX MATCHALL "```cpp\n[^`]+```" blocks "${page}")
list(LENGTH blocks count)
if(count LESS 2)
  message(FATAL_ERROR "README.md has ${count} C++ examples; at least 2 were expected")
endif()
set(number 0)
foreach(block IN LISTS blocks)
  math(EXPR number "${number} + 1")
  string(REGEX REPLACE "^```cpp\n|```$" "" block "${block}")
  string(REGEX MATCHALL "#include [^\n]+\n" includes "${block}")
  string(REGEX REPLACE "#include [^\n]+\n" "" body "${block}")
  string(REPLACE ";" "" includes "${includes}")
  # The second example runs the operator that the first one made.
  set(given "")
  if(NOT body MATCHES "RmsNorm<inlay::Host> norm")
    set(given "inlay::RmsNorm<inlay::Host> norm{.x = {x, {tokens, dim}}, .weight = {weight, {dim}}, .y = {y, {tokens, dim}}};")
  endif()
  set(file ${BUILD}/readme_${number}.cpp)
  file(WRITE ${file} "#include <cstdio>
${includes}
struct Pool { template <class F> void run(inlay::index n, F f) { for (inlay::index i = 0; i < n; ++i) f(i); } };
void example(const float* x, const float* weight, float* y, inlay::index tokens, inlay::index dim, Pool& my_pool) {
${given}
${body}
(void)my_pool;
}
")
  execute_process(COMMAND ${COMPILER} -std=c++20 -fsyntax-only -I${SOURCE}/include -I${SOURCE} ${file}
    RESULT_VARIABLE result ERROR_VARIABLE message)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "example ${number} of README.md does not compile:\n${message}")
  endif()
endforeach()
