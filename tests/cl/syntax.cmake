# Compiles one OpenCL source by its defaults, in both shapes, aligned or not, with doubles or not, for versions and
# machines that are not here. A warning fails. (NVIDIA is for scripts/gpu_report.sh: clang 14 does not know vload_half
# there.)
#
#   cmake -DCLANG=<clang> -DROOT=<project> -DSTEM=<stem> -P syntax.cmake
foreach(machine CL1.2,spir64 CL2.0,spir64 CL3.0,x86_64 CL1.2,amdgcn-amd-amdhsa)
  string(REPLACE "," ";" machine ${machine})
  list(GET machine 0 version)
  list(GET machine 1 target)
  foreach(shape "-DCPU_SHAPE=1;-DLANES=1;-DFP64=1" "-DGPU_SHAPE=1;-DLANES=128" "-DGPU_SHAPE=1;-DLANES=32;-DALIGNED=1")
    execute_process(COMMAND ${CLANG} -x cl -cl-std=${version} -target ${target} -nogpulib -Xclang -finclude-default-header
      -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter -Wno-sign-compare ${shape} -I${ROOT}
      ${ROOT}/cl_kernels/${STEM}.cl RESULT_VARIABLE failed ERROR_VARIABLE words)
    if(failed)
      message(FATAL_ERROR "${STEM}.cl as ${version} for ${target} with ${shape}:\n${words}")
    endif()
  endforeach()
endforeach()
