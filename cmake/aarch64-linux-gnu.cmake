# SPDX-License-Identifier: Apache-2.0
# Cross build for AArch64 on Debian: packages g++-aarch64-linux-gnu and, to run what was built, qemu-user-static.
#   cmake -B build/aarch64 -G Ninja -DCMAKE_TOOLCHAIN_FILE=cmake/aarch64-linux-gnu.cmake
#   cmake --build build/aarch64 && ctest --test-dir build/aarch64
# Of the target's own libraries only the compiler's are needed: programs are linked statically, everything else is
# headers. So there is no MPFR, and `siattn verify` is left out.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64-static)
set(CMAKE_FIND_ROOT_PATH /usr/aarch64-linux-gnu)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_CXX_FLAGS_INIT -Wno-psabi)  # of changes between GCC 9 and 10
set(CMAKE_EXE_LINKER_FLAGS_INIT -static)
set(OpenMP_gomp_LIBRARY gomp CACHE STRING "by name: the linker takes the static one")
set(SIATTN_BUILD_CLAIMS OFF CACHE BOOL "")

# Headers for every architecture, which lie among this machine's own: reached through a folder that holds them alone.
set(SIATTN_HEADERS ${CMAKE_BINARY_DIR}/headers)
file(MAKE_DIRECTORY ${SIATTN_HEADERS})
foreach(folder IN ITEMS xsimd fmt CLI nlohmann Random123)
  if(EXISTS /usr/include/${folder})
    file(CREATE_LINK /usr/include/${folder} ${SIATTN_HEADERS}/${folder} SYMBOLIC)
  endif()
endforeach()
set(SIATTN_XSIMD_INCLUDE ${SIATTN_HEADERS} CACHE PATH "xsimd, by itself" FORCE)
