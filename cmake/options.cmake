# SPDX-License-Identifier: Apache-2.0
# Options of the build. AUTO means: used where it is found, and the summary says what was found.
set(SIATTN_CUDA AUTO CACHE STRING "CUDA backend: AUTO, ON or OFF")
set(SIATTN_ONEDNN AUTO CACHE STRING "oneDNN backend: AUTO, ON or OFF")
set_property(CACHE SIATTN_CUDA SIATTN_ONEDNN PROPERTY STRINGS AUTO ON OFF)
option(SIATTN_BUILD_TOOLS "Build the verification library and the siattn command" ${PROJECT_IS_TOP_LEVEL})
option(SIATTN_BUILD_CLAIMS "Build the claims of the paper, siattn verify: they need MPFR" ON)
option(SIATTN_BUILD_TESTS "Build the tests" ${PROJECT_IS_TOP_LEVEL})
option(BUILD_SHARED_LIBS "siattn::siattn is the shared library; both are built and installed" OFF)
option(SIATTN_FUZZ "Build the fuzzing targets; see the preset fuzz" OFF)
set(SIATTN_SANITIZE "" CACHE STRING "Value for -fsanitize=, for example address,undefined or thread")
include(CMakeDependentOption)
cmake_dependent_option(SIATTN_INSTALL "Install rules and packages" ${PROJECT_IS_TOP_LEVEL} "NOT SIATTN_SANITIZE" OFF)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
