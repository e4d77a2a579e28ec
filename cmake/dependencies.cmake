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
  if(SIATTN_HEADERS)  # a cross build: headers by themselves, no libraries
    foreach(target IN ITEMS fmt::fmt nlohmann_json::nlohmann_json CLI11::CLI11)
      add_library(${target} INTERFACE IMPORTED)
      target_include_directories(${target} SYSTEM INTERFACE ${SIATTN_HEADERS})
    endforeach()
    target_compile_definitions(fmt::fmt INTERFACE FMT_HEADER_ONLY)
  else()
    find_package(fmt REQUIRED)
    find_package(nlohmann_json REQUIRED)
    find_package(CLI11 REQUIRED)
  endif()
endif()
if(SIATTN_BUILD_TOOLS AND SIATTN_BUILD_CLAIMS)
  # Boost.Multiprecision over MPFR: headers only.
  find_path(SIATTN_BOOST_INCLUDE boost/multiprecision/mpfr.hpp REQUIRED)
  find_library(SIATTN_MPFR_LIBRARY mpfr REQUIRED)
  find_library(SIATTN_GMP_LIBRARY gmp REQUIRED)
  add_library(siattn_multiprecision INTERFACE)
  target_include_directories(siattn_multiprecision SYSTEM INTERFACE ${SIATTN_BOOST_INCLUDE})
  target_link_libraries(siattn_multiprecision INTERFACE ${SIATTN_MPFR_LIBRARY} ${SIATTN_GMP_LIBRARY})
endif()

# Optional backends. AUTO says what the machine has for them; ON is refused rather than ignored.
foreach(backend IN ITEMS CUDA ONEDNN)
  if(NOT SIATTN_${backend} MATCHES "^(AUTO|ON|OFF)$")
    message(FATAL_ERROR "SIATTN_${backend} = ${SIATTN_${backend}}: expected AUTO, ON or OFF")
  endif()
endforeach()
if(SIATTN_CUDA STREQUAL "ON")
  message(FATAL_ERROR "SIATTN_CUDA = ON: siattn ${PROJECT_VERSION} has no such backend yet")
endif()
find_program(SIATTN_NVCC nvcc PATHS /usr/local/cuda/bin)

# oneDNN by header and library: its CMake package wants OpenCL's development files, for a GPU that nobody asked for.
# Its kernels are for AVX-512, and it brings OpenMP's threads, which fuzzing runs without.
set(SIATTN_HAS_ONEDNN OFF)
set(siattn_onednn_found "off")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$" AND NOT SIATTN_ONEDNN STREQUAL "OFF" AND NOT SIATTN_FUZZ)
  find_path(SIATTN_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(SIATTN_ONEDNN_LIBRARY dnnl)
  if(SIATTN_ONEDNN_INCLUDE AND SIATTN_ONEDNN_LIBRARY)
    set(SIATTN_HAS_ONEDNN ON)
    set(siattn_onednn_found "${SIATTN_ONEDNN_LIBRARY}")
  elseif(SIATTN_ONEDNN STREQUAL "ON")
    message(FATAL_ERROR "SIATTN_ONEDNN = ON: oneapi/dnnl/dnnl.hpp or libdnnl not found (Debian package libdnnl-dev)")
  else()
    set(siattn_onednn_found "not found (Debian package libdnnl-dev)")
  endif()
elseif(SIATTN_ONEDNN STREQUAL "ON")
  message(FATAL_ERROR "SIATTN_ONEDNN = ON: the backend is for x86-64, and not for fuzzing")
endif()

function(siattn_print_summary)
  message(STATUS "siattn ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
                 "${CMAKE_SYSTEM_PROCESSOR}")
  message(STATUS "  CPU instruction sets: ${SIATTN_CPU_ISAS}")
  message(STATUS "  CUDA: no such backend yet")
  message(STATUS "  oneDNN: ${siattn_onednn_found}")
  message(STATUS "  tools: ${SIATTN_BUILD_TOOLS}   claims: ${SIATTN_BUILD_CLAIMS}   tests: ${SIATTN_BUILD_TESTS}   sanitizers: ${SIATTN_SANITIZE}")
endfunction()
