# A library that is set into an engine does nothing by being there: none of its objects has code that runs before main(), and
# none asks for a signal or to be called at the end of the process.
#
#   cmake -DREADELF=readelf -DNM=nm "-DLIBRARIES=liba.a;.." -P initialisers.cmake
#
# What some do nevertheless, and why:
#   threads.cpp .fini_array     joins the workers of the process's own pools, or dlclose() would leave them without their code
#   threads.cpp pthread_atfork  from the first pool on: a child of fork() has none of the threads that its pools knew
#   reductions.cpp __cxa_thread_atexit   scratch of a thread, freed where it ends
cmake_minimum_required(VERSION 3.22)
set(allowed "threads.cpp.o: .fini_array" "threads.cpp.o: pthread_atfork" "reductions.cpp.o: __cxa_thread_atexit")
set(objects 0)
foreach(library IN LISTS LIBRARIES)
  execute_process(COMMAND ${READELF} -SW ${library} OUTPUT_VARIABLE sections COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
  execute_process(COMMAND ${NM} -A --undefined-only ${library} OUTPUT_VARIABLE symbols COMMAND_ERROR_IS_FATAL ANY ERROR_QUIET)
  string(REGEX MATCHALL "File: [^\n]*\\([^\n]*\\)| \\.(preinit_array|init_array|ctors|fini_array|dtors)" lines "${sections}")
  set(found "")
  set(object "")
  foreach(line IN LISTS lines)
    if(line MATCHES "\\((.*)\\)$")
      set(object ${CMAKE_MATCH_1})
      math(EXPR objects "${objects} + 1")
    else()
      string(STRIP "${line}" section)
      list(APPEND found "${object}: ${section}")
    endif()
  endforeach()
  string(REGEX MATCHALL "[^:\n]+: +U (signal|sigaction|sigset|bsd_signal|atexit|at_quick_exit|on_exit|__cxa_atexit|__cxa_thread_atexit|pthread_atfork)[@\n]"
    lines "${symbols}")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^([^:]+): +U ([a-z_]+).*" "\\1: \\2" line "${line}")
    list(APPEND found "${line}")
  endforeach()
  foreach(what IN LISTS found)
    if(NOT what IN_LIST allowed)
      message(SEND_ERROR "${library}, ${what}: a library must do nothing by being linked, nor ask for signals or an end; "
        "tests/core/initialisers.cmake lists what may")
    else()
      list(APPEND seen "${what}")
    endif()
  endforeach()
endforeach()
if(objects LESS 20)
  message(FATAL_ERROR "${objects} objects in ${LIBRARIES}: the search is broken")
endif()
# What is allowed and not there is not looked for, or is mended.
foreach(what IN ITEMS "threads.cpp.o: .fini_array" "threads.cpp.o: pthread_atfork")
  if(NOT what IN_LIST seen)
    message(SEND_ERROR "${what} is allowed, but none of ${LIBRARIES} has it")
  endif()
endforeach()
