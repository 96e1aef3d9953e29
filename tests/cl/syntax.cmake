# Compiles one OpenCL source for versions and machines that are not here: by its defaults in both shapes, as the lines
# "// gpu report, ..: -D .." in it say, as the launchers define it besides (below), and with each way of meeting lanes
# and of dot products. A warning fails. NVIDIA's machine takes clang 15: 14 does not know vload_half there.
#
#   cmake -DCLANG=<clang> -DROOT=<project> -DSTEM=<stem> -P syntax.cmake
set(add "-DA=f16 -DB=bf16" "-DA=bf16 -DB=f32 -DWIDTH=8")
set(attention_attend
  "-DK=bf16 -DV=bf16 -DK_PIECE=0 -DV_PIECE=0 -DDIM=256 -DROWS=4 -DUNIT_ROWS=32 -DKEY_LANES=32"
  "-DK=f32 -DV=f16 -DK_PIECE=4 -DV_PIECE=8 -DDIM=576 -DROWS=1 -DUNIT_ROWS=12 -DKEY_LANES=32"
  "-DK=i8 -DV=i8 -DK_CODES=1 -DV_CODES=1 -DK_PIECE=16 -DV_PIECE=1 -DV_SLOTS=1 -DDIM=128 -DROWS=4 -DUNIT_ROWS=32 \
-DKEY_LANES=16 -DTRANSPOSED=1")
set(dequantize "-DCODE=u8 -DREAL=bf16" "-DCODE=i4 -DREAL=f16 -DNIBBLES=1" "-DCODE=u4 -DREAL=f32 -DNIBBLES=1 -DWIDTH=8")
set(embedding "-DT=i8 -DY=f16" "-DT=bf16 -DY=f32" "-DBLOCKS=1 -DY=bf16" "-DBLOCKS=1 -DY=bf16 -DOF_256=1")
set(gelu "-DT=f16" "-DT=bf16")
set(kv_cache "-DRAW_BITS=16" "-DRAW_BITS=32" "-DS=bf16 -DT=i8 -DQUANTIZED=1" "-DS=f16 -DT=bf16" "-DUNIT=16" "-DUNIT=1")
set(layer_norm "-DX=f16 -DW=f32 -DRESIDUAL=1" "-DX=bf16 -DW=bf16 -DRESIDUAL=1 -DRESCALES=1")
set(linear "-DW=f32 -DROWS=4" "-DW=bf16 -DPACKED=1 -DROWS=8" "-DW=f16 -DROWS=1 -DROUNDED=1"
  "-DW=f16 -DPACKED=1 -DROWS=8 -DONE_TILE=1 -DROUNDED=1")
set(linear_int8 "-DX=f16" "-DX=bf16" "-DROWS=4" "-DROWS=12")
set(linear_w4a16 "-DPREPARES=1" "-DS=bf16 -DBITS=8 -DROWS=1" "-DS=f16 -DBITS=4 -DROWS=4" "-DS=f32 -DBITS=8 -DROWS=12"
  "-DS=f16 -DBITS=4 -DROWS=1 -DSTEPS=1" "-DS=f32 -DBITS=8 -DROWS=4 -DSTEPS=1" "-DS=f16 -DBITS=4 -DROWS=12 -DSTEPS=1")
set(merge_states "-DX=f16 -DY=f16" "-DX=bf16 -DY=f32")
set(moe_combine "-DX=f16 -DY=f16 -DGATE=f32" "-DX=bf16 -DY=f32 -DGATE=bf16")
set(moe_routing "-DX=f16" "-DX=bf16 -DWIDTH=8")
set(quantize "-DREAL=f16 -DCODE=u8" "-DREAL=bf16 -DCODE=i4 -DNIBBLES=1" "-DREAL=f32 -DCODE=u4 -DNIBBLES=1 -DWIDTH=8")
set(rms_norm "-DX=f16 -DW=f32 -DY=i8 -DQUANTIZED=1 -DRESIDUAL=1" "-DX=bf16 -DW=bf16 -DY=bf16 -DRESIDUAL=1 -DCASTS=1 -DRESCALES=1")
set(rope "-DX=f16 -DTABLE=f32" "-DX=bf16 -DTABLE=bf16")
set(skeleton "-DT=f16" "-DT=bf16")
set(softmax "-DX=f16 -DY=f32 -DSTORED=1" "-DX=bf16 -DY=bf16 -DWIDTH=8")
set(swiglu "-DT=f16" "-DT=bf16")
string(REPLACE "/" "_" name ${STEM})
set(others " " ${${name}})  # a list of one empty word would be an empty list

set(source ${ROOT}/cl_kernels/${STEM}.cl)
file(READ ${source} text)

# compile VERSION MACHINE FLAGS: all flags in one word.
function(compile version machine flags)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  execute_process(COMMAND ${CLANG} -x cl -cl-std=${version} -target ${machine} -nogpulib
    -Xclang -finclude-default-header -fsyntax-only -Wall -Wextra -Werror -Wno-unused-function -Wno-unused-parameter
    -Wno-sign-compare ${flags} -I${ROOT} ${source} RESULT_VARIABLE failed ERROR_VARIABLE words)
  if(failed)
    message(FATAL_ERROR "${STEM}.cl as ${version} for ${machine} with ${flags}:\n${words}")
  endif()
endfunction()

set(per_item "-DPER_ITEM=1 -DLANES=1 -DFP64=1")
set(per_group "-DPER_GROUP=1 -DLANES=128")
set(aligned "-DPER_GROUP=1 -DLANES=32 -DALIGNED=1 -DUNROLLED=1")
set(avx512 "${per_item} -mavx512f -mavx512bw -mf16c")

# What an OpenCL device may be.
set(machines CL1.2,spir64 CL2.0,spir64 CL3.0,spir64 CL1.2,amdgcn-amd-amdhsa)
execute_process(COMMAND ${CLANG} -dumpversion OUTPUT_VARIABLE clang_version)
if(clang_version VERSION_GREATER_EQUAL 15)
  set(nvidia nvptx64-nvidia-nvcl)
  list(APPEND machines CL1.2,${nvidia} CL3.0,${nvidia})
else()
  message(STATUS "not tested: OpenCL sources for NVIDIA, whose compiler is clang 15")
endif()
foreach(machine IN LISTS machines)
  string(REPLACE "," ";" machine ${machine})
  compile(${machine} "${per_group}")
  compile(${machine} "${aligned} -DFP64=1")
endforeach()
compile(CL1.2 spir64 "${per_group} -DFALLBACKS=1")
foreach(version CL1.2 CL3.0)
  foreach(machine x86_64 spir64)
    compile(${version} ${machine} "${per_item}")
  endforeach()
  compile(${version} x86_64 "${per_group}")
  compile(${version} x86_64 "-DPER_ITEM=1 -DLANES=1 -DFALLBACKS=1")
  compile(${version} x86_64 "${avx512}")
  compile(${version} x86_64 "${avx512} -DFALLBACKS=1")
endforeach()

# What programs define.
foreach(flags IN LISTS others)
  compile(CL1.2 spir64 "${per_group} ${flags}")
  compile(CL3.0 spir64 "${per_group} -DALIGNED=1 -DUNROLLED=1 ${flags}")
  compile(CL1.2 x86_64 "${per_item} ${flags}")
  compile(CL3.0 x86_64 "${avx512} ${flags}")
endforeach()
string(REGEX MATCHALL "// gpu report(, [^:\n]*)?: [^\n]*" lines "${text}")
foreach(line IN LISTS lines)
  string(REGEX REPLACE "^[^:]*: " "" flags "${line}")
  string(REPLACE "-D " "-D" flags "${flags}")
  if(NOT flags MATCHES "-DLANES=")
    string(APPEND flags " -DLANES=128")
  endif()
  if(nvidia)
    compile(CL1.2 ${nvidia} "-DPER_GROUP=1 -DALIGNED=1 -DUNROLLED=1 -DSHFL=1 ${flags}")
  endif()
  string(REPLACE "-DDOT_PTX=1" "" flags "${flags}")
  compile(CL1.2 amdgcn-amd-amdhsa "-DPER_GROUP=1 -DALIGNED=1 -DUNROLLED=1 ${flags}")
endforeach()

# How lanes meet, and dot products.
compile(CL3.0 spir64 "${per_group} -DSUBGROUPS=1")
compile(CL3.0 spir64 "${aligned} -DSUBGROUPS=1")
if(nvidia)
  compile(CL3.0 ${nvidia} "${per_group} -DSHFL=1")
  compile(CL1.2 ${nvidia} "${aligned} -DSHFL=1")
endif()
if(text MATCHES "dot_[cg]pu\\.clh")
  foreach(flags IN LISTS others)
    compile(CL3.0 spir64 "${per_group} ${flags} -DDOT_KHR=1")
    if(nvidia)
      compile(CL1.2 ${nvidia} "${per_group} ${flags} -DDOT_PTX=1")
    endif()
    foreach(way DOT_VNNI=16 DOT_MADD=16)
      compile(CL3.0 x86_64 "${avx512} ${flags} -D${way}")
    endforeach()
    foreach(way DOT_VNNI=8 DOT_MADD=8)
      compile(CL1.2 x86_64 "${per_item} -mavx2 ${flags} -D${way}")
    endforeach()
  endforeach()
endif()
