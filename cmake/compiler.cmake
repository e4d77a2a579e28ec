# SPDX-License-Identifier: Apache-2.0
# Flags that hold for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)

add_library(siattn_compile_options INTERFACE)
# Floating point means what the source says: no contraction outside the vector kernels, which ask for it themselves.
target_compile_options(siattn_compile_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -ffp-contract=off)
if(SIATTN_SANITIZE)
  target_compile_options(siattn_compile_options INTERFACE -fsanitize=${SIATTN_SANITIZE} -fno-omit-frame-pointer
                                                          -fno-sanitize-recover=all)
  # GCC's manual: with sanitizers these two warn of what is right.
  target_compile_options(siattn_compile_options INTERFACE
                         $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-Wno-maybe-uninitialized;-Wno-mismatched-new-delete>)
  target_link_options(siattn_compile_options INTERFACE -fsanitize=${SIATTN_SANITIZE})
endif()
