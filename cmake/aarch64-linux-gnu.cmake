# SPDX-License-Identifier: Apache-2.0
# Cross build for AArch64 on Debian: packages g++-aarch64-linux-gnu and, to run what was built, qemu-user-static.
#   cmake -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake -DSIATTN_BUILD_TOOLS=OFF -DSIATTN_BUILD_TESTS=OFF
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static;-L;/usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)

# xsimd is headers for every architecture, but lies among this machine's own: reached through a folder that holds it
# alone.
if(EXISTS /usr/include/xsimd/xsimd.hpp)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/xsimd-alone)
  file(CREATE_LINK /usr/include/xsimd ${CMAKE_BINARY_DIR}/xsimd-alone/xsimd SYMBOLIC)
  set(SIATTN_XSIMD_INCLUDE ${CMAKE_BINARY_DIR}/xsimd-alone CACHE PATH "xsimd, by itself" FORCE)
endif()
