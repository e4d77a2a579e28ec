# SPDX-License-Identifier: Apache-2.0
# Everything here is a Debian package that tools/setup.sh installs.
find_package(OpenMP REQUIRED COMPONENTS CXX)

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

function(siattn_print_summary)
  message(STATUS "siattn ${PROJECT_VERSION}: ${CMAKE_BUILD_TYPE}, ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}, "
                 "${CMAKE_SYSTEM_PROCESSOR}")
  message(STATUS "  CPU instruction sets: ${SIATTN_CPU_ISAS}")
  message(STATUS "  tools: ${SIATTN_BUILD_TOOLS}   tests: ${SIATTN_BUILD_TESTS}   sanitizers: ${SIATTN_SANITIZE}")
endfunction()
