# SPDX-License-Identifier: Apache-2.0
# Everything here is a Debian package that tools/setup.sh installs.
if(SIATTN_FUZZ)
  add_library(OpenMP::OpenMP_CXX INTERFACE IMPORTED)
  target_include_directories(OpenMP::OpenMP_CXX INTERFACE ${PROJECT_SOURCE_DIR}/fuzz/serial)
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# xsimd by its include directory only: its CMake target links a library that Debian does not ship.
find_path(SIATTN_XSIMD_INCLUDE xsimd/xsimd.hpp REQUIRED)

if(SIATTN_BUILD_TOOLS)
  find_package(fmt REQUIRED)
  find_package(nlohmann_json REQUIRED)
  find_package(CLI11 REQUIRED)
  # Boost.Multiprecision over MPFR: headers only.
  find_path(SIATTN_BOOST_INCLUDE boost/multiprecision/mpfr.hpp REQUIRED)
  find_library(SIATTN_MPFR_LIBRARY mpfr REQUIRED)
  find_library(SIATTN_GMP_LIBRARY gmp REQUIRED)
  add_library(siattn_multiprecision INTERFACE)
  target_include_directories(siattn_multiprecision SYSTEM INTERFACE ${SIATTN_BOOST_INCLUDE})
  target_link_libraries(siattn_multiprecision INTERFACE ${SIATTN_MPFR_LIBRARY} ${SIATTN_GMP_LIBRARY})
endif()

# Backends to come. AUTO says what the machine has for them; ON is refused rather than ignored.
function(siattn_look_for backend tool result)
  if(NOT SIATTN_${backend} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "SIATTN_${backend} = ${SIATTN_${backend}}: expected AUTO, ON or OFF")
  elseif(SIATTN_${backend} STREQUAL "ON")
    message(FATAL_ERROR "SIATTN_${backend} = ON: siattn ${PROJECT_VERSION} has no such backend yet")
  elseif(SIATTN_${backend} STREQUAL "OFF")
    set(${result} "off" PARENT_SCOPE)
  elseif(${tool})
    set(${result} "${${tool}} found, but this version has no such backend yet" PARENT_SCOPE)
  else()
    set(${result} "not found" PARENT_SCOPE)
  endif()
endfunction()
find_program(SIATTN_NVCC nvcc PATHS /usr/local/cuda/bin)
find_path(SIATTN_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
siattn_look_for(CUDA SIATTN_NVCC siattn_cuda_found)
siattn_look_for(ONEDNN SIATTN_ONEDNN_INCLUDE siattn_onednn_found)

function(siattn_print_summary)
  message(STATUS "siattn ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
                 "${CMAKE_SYSTEM_PROCESSOR}")
  message(STATUS "  CPU instruction sets: ${SIATTN_CPU_ISAS}")
  message(STATUS "  CUDA: ${siattn_cuda_found}")
  message(STATUS "  oneDNN: ${siattn_onednn_found}")
  message(STATUS "  tools: ${SIATTN_BUILD_TOOLS}   tests: ${SIATTN_BUILD_TESTS}   sanitizers: ${SIATTN_SANITIZE}")
endfunction()
